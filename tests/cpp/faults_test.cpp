#include <ortdl/ortdl.h>
#include <ortdl/saved_session.h>

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

// Each function of ONNX Runtime that is called on the CPU fails once at each of its calls. What was
// asked for then succeeds or throws what ONNX Runtime said, nothing stays alive, and the next time
// it succeeds.
namespace ortdl::test {
namespace {

constexpr const char* kSaid = "made to fail";

// The functions themselves, and how many calls are left to the one that fails.
OrtApi real;
std::atomic<int> calls_until_fault = 0;

// `Function`, failing at the call that is counted down to.
template <auto Function, typename... Args>
OrtStatus* faulty(Args... args) noexcept {
  return --calls_until_fault == 0 ? real.CreateStatus(ORT_ENGINE_ERROR, kSaid)
                                  : (real.*Function)(args...);
}

struct Row {
  const char* name;
  void (*install)(OrtApi&);
};

template <auto Function>
constexpr Row row(const char* name) {
  return {name, [](OrtApi& table) { table.*Function = faulty<Function>; }};
}

constexpr std::array kFunctions{
    row<&OrtApi::AddExternalInitializersFromFilesInMemory>("AddExternalInitializers..."),
    row<&OrtApi::AddInitializer>("AddInitializer"),
    row<&OrtApi::AddSessionConfigEntry>("AddSessionConfigEntry"),
    row<&OrtApi::BindInput>("BindInput"),
    row<&OrtApi::BindOutput>("BindOutput"),
    row<&OrtApi::BindOutputToDevice>("BindOutputToDevice"),
    row<&OrtApi::CastTypeInfoToMapTypeInfo>("CastTypeInfoToMapTypeInfo"),
    row<&OrtApi::CastTypeInfoToOptionalTypeInfo>("CastTypeInfoToOptionalTypeInfo"),
    row<&OrtApi::CastTypeInfoToSequenceTypeInfo>("CastTypeInfoToSequenceTypeInfo"),
    row<&OrtApi::CastTypeInfoToTensorInfo>("CastTypeInfoToTensorInfo"),
    row<&OrtApi::CloneSessionOptions>("CloneSessionOptions"),
    row<&OrtApi::CreateIoBinding>("CreateIoBinding"),
    row<&OrtApi::CreateRunOptions>("CreateRunOptions"),
    row<&OrtApi::CreateSession>("CreateSession"),
    row<&OrtApi::CreateSessionFromArray>("CreateSessionFromArray"),
    row<&OrtApi::CreateSessionOptions>("CreateSessionOptions"),
    row<&OrtApi::CreateTensorAsOrtValue>("CreateTensorAsOrtValue"),
    row<&OrtApi::CreateTensorWithDataAndDeleterAsOrtValue>("CreateTensor...AndDeleter..."),
    row<&OrtApi::CreateTensorWithDataAsOrtValue>("CreateTensorWithDataAsOrtValue"),
    row<&OrtApi::CreateValue>("CreateValue"),
    row<&OrtApi::GetAllocatorWithDefaultOptions>("GetAllocatorWithDefaultOptions"),
    row<&OrtApi::GetAvailableProviders>("GetAvailableProviders"),
    row<&OrtApi::GetBoundOutputValues>("GetBoundOutputValues"),
    row<&OrtApi::GetDimensions>("GetDimensions"),
    row<&OrtApi::GetDimensionsCount>("GetDimensionsCount"),
    row<&OrtApi::GetEpDevices>("GetEpDevices"),
    row<&OrtApi::GetMapKeyType>("GetMapKeyType"),
    row<&OrtApi::GetMapValueType>("GetMapValueType"),
    row<&OrtApi::GetOnnxTypeFromTypeInfo>("GetOnnxTypeFromTypeInfo"),
    row<&OrtApi::GetOptionalContainedTypeInfo>("GetOptionalContainedTypeInfo"),
    row<&OrtApi::GetResizedStringTensorElementBuffer>("GetResizedStringTensorElementBuffer"),
    row<&OrtApi::GetSequenceElementType>("GetSequenceElementType"),
    row<&OrtApi::GetStringTensorContent>("GetStringTensorContent"),
    row<&OrtApi::GetStringTensorDataLength>("GetStringTensorDataLength"),
    row<&OrtApi::GetSymbolicDimensions>("GetSymbolicDimensions"),
    row<&OrtApi::GetTensorElementType>("GetTensorElementType"),
    row<&OrtApi::GetTensorMemoryInfo>("GetTensorMemoryInfo"),
    row<&OrtApi::GetTensorMutableData>("GetTensorMutableData"),
    row<&OrtApi::GetTensorTypeAndShape>("GetTensorTypeAndShape"),
    row<&OrtApi::GetTypeInfo>("GetTypeInfo"),
    row<&OrtApi::GetValue>("GetValue"),
    row<&OrtApi::GetValueCount>("GetValueCount"),
    row<&OrtApi::GetValueType>("GetValueType"),
    row<&OrtApi::HasSessionConfigEntry>("HasSessionConfigEntry"),
    row<&OrtApi::HasValue>("HasValue"),
    row<&OrtApi::Run>("Run"),
    row<&OrtApi::RunAsync>("RunAsync"),
    row<&OrtApi::RunWithBinding>("RunWithBinding"),
    row<&OrtApi::SessionGetEpDeviceForInputs>("SessionGetEpDeviceForInputs"),
    row<&OrtApi::SessionGetInputCount>("SessionGetInputCount"),
    row<&OrtApi::SessionGetInputName>("SessionGetInputName"),
    row<&OrtApi::SessionGetInputTypeInfo>("SessionGetInputTypeInfo"),
    row<&OrtApi::SessionGetMemoryInfoForInputs>("SessionGetMemoryInfoForInputs"),
    row<&OrtApi::SessionGetMemoryInfoForOutputs>("SessionGetMemoryInfoForOutputs"),
    row<&OrtApi::SessionGetOutputCount>("SessionGetOutputCount"),
    row<&OrtApi::SessionGetOutputName>("SessionGetOutputName"),
    row<&OrtApi::SessionGetOutputTypeInfo>("SessionGetOutputTypeInfo"),
    row<&OrtApi::SetIntraOpNumThreads>("SetIntraOpNumThreads"),
    row<&OrtApi::SetSessionGraphOptimizationLevel>("SetSessionGraphOptimizationLevel"),
};

// The library's table while it lives: the real one, but for the function of one row.
class FaultyTable {
 public:
  explicit FaultyTable(const Row& row) : before_(detail::api_table.load()) {
    // PyTorch's thread may still release what it had of an asynchronous run when the test goes on
    // to the next table, so none of them dies.
    static std::deque<OrtApi> tables;
    real = *before_;
    OrtApi& table = tables.emplace_back(real);
    row.install(table);
    detail::api_table.store(&table);
  }
  FaultyTable(const FaultyTable&) = delete;
  FaultyTable(FaultyTable&&) = delete;
  FaultyTable& operator=(const FaultyTable&) = delete;
  FaultyTable& operator=(FaultyTable&&) = delete;
  ~FaultyTable() { detail::api_table.store(before_); }

 private:
  const OrtApi* before_;
};

// A session with two intra-op threads, so that it has what RunAsync needs.
SessionPtr load_with_threads(const at::Tensor& model) {
  SessionConfig config{.model = model};
  config.properties.insert("intra_op_num_threads", "2");
  config.properties.insert("log_severity_level", "4");
  return c10::make_intrusive<Session>(config);
}

ValuePtr run_values(const Session& session, std::vector<ValuePtr> inputs) {
  Feeds feeds = session.feeds();
  for (size_t i = 0; i < inputs.size(); ++i) {
    feeds.set(i, std::move(inputs[i]));
  }
  return session.run_values(feeds, session.all_outputs())[0];
}

void convert() {
  const at::Tensor tensor = at::rand({2, 3});
  const ValuePtr value = Value::from_tensor(tensor);
  EXPECT_EQ(value->to_tensor().data_ptr(), tensor.data_ptr());
  EXPECT_TRUE(same_bits(Value::from_tensor(tensor, Copy::kAlways)->to_tensor(), tensor));
  value->update(tensor + 1);
  EXPECT_EQ(value->type_string(), "tensor(float)");
  EXPECT_TRUE(value->has_value());
  EXPECT_EQ(held(runtime_value(ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, {3}))->nbytes(), 24);
}

void exchange() {
  const at::Tensor tensor = at::rand({2, 3});
  ManagedTensor managed(to_dlpack_versioned(Value::from_tensor(tensor)));
  validate_dlpack(managed.tensor(), managed.flags(), Copy::kNever);
  EXPECT_EQ(from_dlpack(std::move(managed), Copy::kNever)->data(), tensor.data_ptr());
  ManagedTensor legacy(to_dlpack_legacy(Value::from_tensor(tensor)));
  EXPECT_TRUE(same_bits(copy_of_dlpack(legacy.tensor())->to_tensor(), tensor));
}

void run_in_every_way() {
  const SessionPtr session = load_with_threads(onnx::subtract());
  const at::Tensor left = at::rand({4});
  const at::Tensor right = at::rand({4});
  const at::Tensor wanted = left - right;
  EXPECT_TRUE(same_bits(session->run({left, right})[0], wanted));
  EXPECT_TRUE(same_bits(
      run_values(*session, {Value::from_tensor(left), Value::from_tensor(right)})->to_tensor(),
      wanted));
  const at::Tensor into = at::empty({4});
  session->run_into({into}, {left, right});
  EXPECT_TRUE(same_bits(into, wanted));
  const FuturePtr future = session->run_async({left, right});
  future->waitAndThrow();
  EXPECT_TRUE(same_bits(future->value().toTensorVector()[0], wanted));
}

void run_bound() {
  Binding binding(load_with_threads(onnx::subtract()));
  const at::Tensor ones = at::ones({4});
  binding.bind_input(0, ones);
  binding.bind_input(1, ones);
  binding.bind_output(0);
  binding.run();
  EXPECT_TRUE(same_bits(binding.outputs()[0]->to_tensor(), at::zeros({4})));
  const at::Tensor into = at::ones({4});
  binding.bind_output(0, into);
  binding.run();
  EXPECT_TRUE(same_bits(into, at::zeros({4})));
}

void save_and_load() {
  const at::Tensor model =
      onnx::model({{"Mul", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}}, {{"w", at::ones({4})}});
  SessionConfig config{.model = model};
  config.properties.insert("graph_optimization_level", "0");
  config.initializers.push_back({"w", Value::from_tensor(at::full({4}, 2.F))});
  SessionState state = save_session(c10::make_intrusive<Session>(config));
  EXPECT_TRUE(
      same_bits(load_session(std::move(state))->run({at::ones({4})})[0], at::full({4}, 2.F)));
  SessionConfig external{.model = onnx::external_weight("w.bin")};
  external.external_files.push_back({"w.bin", at::zeros({8}, at::kByte)});
  EXPECT_TRUE(same_bits(Session(external).run({at::ones({2})})[0], at::ones({2})));
}

void load_from_a_file() {
  const std::string path = ::testing::TempDir() + "ortdl_faults.onnx";
  const at::Tensor model = onnx::subtract();
  std::FILE* file = std::fopen(path.c_str(), "wb");
  EXPECT_EQ(std::fwrite(model.const_data_ptr(), 1, model.nbytes(), file), model.nbytes());
  EXPECT_EQ(std::fclose(file), 0);
  const Session session(SessionConfig{.path = path});
  EXPECT_TRUE(same_bits(session.run({at::ones({2}), at::ones({2})})[0], at::zeros({2})));
  EXPECT_EQ(std::remove(path.c_str()), 0);
}

void text_and_nested() {
  const std::vector<std::string_view> strings{"a", "", "bcd"};
  const SessionPtr identity = load_with_threads(onnx::unary("Identity", onnx::kString));
  EXPECT_EQ(Text(*run_values(*identity, {make_text(strings, {3})}))[2], "bcd");
  const std::string sequence = onnx::sequence_type(onnx::tensor_type());
  const SessionPtr nested = load_with_threads(
      onnx::model({{"Identity", {"x"}, {"y"}}}, {{"x", sequence}}, {{"y", sequence}}));
  const ValuePtr items = run_values(*nested, {make_sequence({Value::from_tensor(at::ones({2}))})});
  EXPECT_TRUE(same_bits(parts(*items).at(0)->to_tensor(), at::ones({2})));
  const ValuePtr map =
      make_map(*Value::from_tensor(at::arange(2)), *Value::from_tensor(at::ones({2})));
  EXPECT_EQ(map->type_string(), "map(int64,tensor(float))");
  EXPECT_EQ(parts(*map).size(), 2U);
  const std::string optional = onnx::optional_type(onnx::tensor_type());
  const SessionPtr maybe = load_with_threads(
      onnx::model({{"OptionalGetElement", {"x"}, {"y"}}}, {{"x", optional}}, {{"y"}}));
  EXPECT_TRUE(same_bits(run_values(*maybe, {Value::from_tensor(at::ones({2}))})->to_tensor(),
                        at::ones({2})));
}

const std::vector<std::function<void()>> kWork{convert,        exchange,      run_in_every_way,
                                               run_bound,      save_and_load, load_from_a_file,
                                               text_and_nested};

// Whether `work` reached the call number `nth` of the function that is to fail.
bool fails(const std::function<void()>& work, int nth) {
  calls_until_fault = nth;
  try {
    work();
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_NE(message.find(kSaid), std::string::npos) << message;
  }
  return calls_until_fault <= 0;
}

class FaultsTest : public CountedTest {
 protected:
  // PyTorch's thread lets go of a future a moment after it is complete.
  static bool nothing_left() {
    const auto left = [] {
      const LiveObjects now = live_objects();
      return now.values + now.owners + now.sessions;
    };
    for (int i = 0; i < 1000 && left() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    return left() == 0;
  }
};

TEST_F(FaultsTest, EachFunctionFailsAtEachOfItsCalls) {
  for (const std::function<void()>& work : kWork) {
    work();
  }
  for (const Row& row : kFunctions) {
    const ::testing::ScopedTrace trace(__FILE__, __LINE__, row.name);
    const FaultyTable table(row);
    int failures = 0;
    for (const std::function<void()>& work : kWork) {
      for (int nth = 1; fails(work, nth); ++nth) {
        ++failures;
        ASSERT_TRUE(nothing_left()) << nth;
        calls_until_fault = 0;
        work();
      }
    }
    EXPECT_GT(failures, 0);
  }
}

// What is made once in a process and kept: here in a process of its own, in which it was not made.
[[noreturn]] void fail_at_first_use(const Row& row) {
  const FaultyTable table(row);
  const bool failed = fails(run_in_every_way, 1);
  calls_until_fault = 0;
  run_in_every_way();
  std::_Exit(failed && !::testing::Test::HasFailure() ? 0 : 1);
}

TEST(FaultsDeathTest, WhatIsMadeOnceIsMadeAgainAfterItFailed) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const auto success = ::testing::ExitedWithCode(0);
  EXPECT_EXIT(fail_at_first_use(row<&OrtApi::CreateEnv>("CreateEnv")), success, "");
  EXPECT_EXIT(fail_at_first_use(row<&OrtApi::CreateMemoryInfo>("CreateMemoryInfo")), success, "");
}

}  // namespace
}  // namespace ortdl::test
