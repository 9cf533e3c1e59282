#include <ortdl/session.h>

#include <algorithm>
#include <thread>

#include "device_test.h"
#include "fake_provider.h"
#include "onnx_bytes.h"

// Sessions whose provider works on the fake accelerator. Both ways to give it a stream are tested:
// one for each run, and one for the session together with PyTorch's allocator.
namespace ortdl::test {
namespace {

// Asked for without an optimizer, so that each node is the provider's own kernel.
SessionPtr load(const at::Tensor& model, const Provider& provider, bool moves = false,
                ExecutionMode mode = ORT_SEQUENTIAL) {
  StringDict properties;
  properties.insert("graph_optimization_level", std::to_string(ORT_DISABLE_ALL));
  properties.insert("execution_mode", std::to_string(mode));
  StringDict entries;
  if (moves) {
    entries.insert(SessionConfig::kMoveInputs, "1");
  }
  return c10::make_intrusive<Session>(SessionConfig{
      .model = model, .properties = properties, .entries = entries, .providers = {provider}});
}

// 0, 1, 2, 3 added to itself.
void expect_doubled(const at::Tensor& sum) {
  EXPECT_TRUE(at::equal(sum, at::tensor({0.F, 2.F, 4.F, 6.F}))) << sum;
}

class SessionTest : public DeviceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    register_fake_providers();
    reset_provider();
  }

  static const char* name() {
    return std::string(GetParam()) == "native" ? native_provider() : kPlugin;
  }
  static bool is_native() { return name() != kPlugin; }
  static SessionPtr adder(int index, bool moves = false) {
    return load(onnx::add(), on_device(name(), index), moves);
  }
};

INSTANTIATE_TEST_SUITE_P(Providers, SessionTest, ::testing::Values("plugin", "native"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(SessionTest, ReadsInputsInPlaceAndLeavesOutputsOnTheDevice) {
  const SessionPtr session = adder(2);
  const at::Tensor left = counting(2);
  const at::Tensor right = counting(2);
  reset_provider();
  const at::Tensor sum = run(session, {left, right})[0];
  EXPECT_EQ(sum.device(), device(2));
  const FakeGpuEpCompute compute = provider_compute(0);
  EXPECT_EQ(compute.inputs[0].data, left.const_data_ptr());
  EXPECT_EQ(compute.inputs[1].data, right.const_data_ptr());
  EXPECT_EQ(compute.output.data, sum.const_data_ptr());
  EXPECT_EQ(compute.device, 2);
  const FakeGpuEpCounters counters = provider_counters();
  EXPECT_EQ(counters.host_to_device + counters.device_to_host + counters.device_to_device, 0U);
  expect_doubled(sum.cpu());
}

TEST_P(SessionTest, IsOrderedWithTheCurrentStreamAndTheHostDoesNotWait) {
  const SessionPtr session = adder(1);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);  // still waits in `stream`
  static_cast<void>(taken());
  reset_provider();
  const at::Tensor sum = run(session, {input, input})[0];
  EXPECT_EQ(provider_counters().stream_waits, 0U);
  for (const std::string& line : taken()) {
    EXPECT_EQ(line.find("synchronize"), std::string::npos) << line;
  }
  // Nothing but `stream` is waited for.
  expect_doubled(read_on(stream, sum));
}

TEST_P(SessionTest, ReadsAValueAfterTheStreamThatMadeIt) {
  const SessionPtr session = adder(1);
  const c10::Stream producer = new_stream(1);
  ValuePtr value;
  {
    const Using current(producer);
    value = Value::from_tensor(counting(1));
  }
  Feeds feeds = session->feeds();
  feeds.set(0, value);
  feeds.set(1, value);
  const at::Tensor sum = session->run(feeds, session->all_outputs())[0];
  expect_doubled(read_on(default_stream(1), sum));
}

TEST_P(SessionTest, TheOutputsStreamIsTheOneThatTheRunJoined) {
  const SessionPtr session = adder(1);
  const c10::Stream stream = new_stream(1);
  at::Tensor sum;
  {
    const Using current(stream);
    const at::Tensor input = counting(1);
    sum = run(session, {input, input})[0];
    EXPECT_EQ(Value::from_tensor(sum)->stream(), stream);
  }
}

TEST_P(SessionTest, WorksOnASecondRunAndOnAnotherStream) {
  const SessionPtr session = adder(0);
  for (const c10::Stream stream : {new_stream(0), default_stream(0), new_stream(0)}) {
    const Using current(stream);
    const at::Tensor input = counting(0, 5);
    const at::Tensor sum = run(session, {input, input})[0];
    const at::Tensor again = run(session, {sum, sum})[0];
    EXPECT_TRUE(at::equal(read_on(stream, again), at::arange(5).to(at::kFloat).mul(4)));
  }
}

TEST_P(SessionTest, RefusesInputsElsewhereAndNamesBothDevices) {
  const SessionPtr session = adder(1);
  const at::Tensor here = counting(1);
  reset_provider();
  expect_error<c10::ValueError>([&] { return run(session, {here, at::ones({4})}); },
                                {device(1).str(), "cpu", "'b'", "move_inputs=True"});
  expect_error<c10::ValueError>([&] { return run(session, {counting(2), here}); },
                                {device(1).str(), device(2).str(), "'a'"});
  Feeds feeds = session->feeds();
  expect_error<c10::ValueError>([&] { feeds.set(0, Value::from_tensor(counting(3))); },
                                {device(1).str(), device(3).str()});
  EXPECT_EQ(provider_counters().computes, 0U);
}

TEST_P(SessionTest, MovesInputsWhenAsked) {
  const SessionPtr session = adder(1, /*moves=*/true);
  Feeds feeds = session->feeds();
  feeds.set(0, at::ones({4}));
  feeds.set(1, Value::from_tensor(counting(2)));
  const at::Tensor sum = session->run(feeds, session->all_outputs())[0];
  EXPECT_EQ(sum.device(), device(1));
  EXPECT_TRUE(at::equal(sum.cpu(), at::tensor({1.F, 2.F, 3.F, 4.F})));
}

TEST_P(SessionTest, AnOutputOnTheCpuIsReadyWhenTheRunEnds) {
  const SessionPtr session =
      load(onnx::model({{"Add", {"a", "b"}, {"c"}},
                        {"Identity", {"c"}, {"same"}},
                        {"Shape", {"c"}, {"size"}},
                        {"Neg", {"c"}, {"negative"}}},
                       {{"a"}, {"b"}},
                       {{"same"}, {"size", onnx::tensor_type(onnx::kInt64)}, {"negative"}}),
           on_device(name(), 1));
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);
  const std::vector<at::Tensor> results = run(session, {input, input});
  EXPECT_EQ(results[0].device(), device(1));
  EXPECT_TRUE(at::equal(results[1], at::tensor({4}, at::kLong)));
  EXPECT_TRUE(at::equal(results[2], at::tensor({0.F, -2.F, -4.F, -6.F})));
  expect_doubled(read_on(stream, results[0]));
}

TEST_P(SessionTest, EveryFailureOfTheAcceleratorLeavesNothingBehind) {
  const SessionPtr session = adder(1);
  const at::Tensor input = counting(1);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  // exchangeStream is missing: PyTorch's own guard ends the process if that fails.
  for (const char* kind : {"getStream", "isStreamCapturing", "getStreamNativeHandle", "record",
                           "block", "exchangeDevice", "allocate", "recordDataPtrOnStream"}) {
    for (int64_t nth = 1;; ++nth) {
      ASSERT_LT(nth, 100) << "the calls do not end";
      fake::trace().fail(kind, nth);
      at::Tensor sum;
      try {
        sum = run(session, {input, input})[0];
      } catch (const c10::Error&) {
        EXPECT_FALSE(sum.defined());
      }
      const bool failed = !fake::trace().stop_failing().empty();
      EXPECT_EQ(fake::current().device, 0) << kind << nth;
      EXPECT_EQ(current_stream(device(1)), stream) << kind << nth;
      EXPECT_EQ(fake::live_events(), 0) << kind << nth;
      if (sum.defined()) {
        expect_doubled(read_on(stream, sum));
      }
      if (!failed) {
        break;
      }
    }
  }
}

TEST_P(SessionTest, AnOutputAskedForTwiceIsTwoTensors) {
  const SessionPtr session = adder(1);
  Feeds feeds = session->feeds();
  feeds.set(0, counting(1));
  feeds.set(1, counting(1));
  const std::vector<size_t> twice{0, 0};
  const std::vector<at::Tensor> results = session->run(feeds, twice);
  ASSERT_EQ(results.size(), 2U);
  EXPECT_NE(results[0].data_ptr(), results[1].data_ptr());
  EXPECT_TRUE(at::equal(results[0].cpu(), results[1].cpu()));
}

TEST_P(SessionTest, LeavesTheCurrentDeviceAsItWas) {
  const SessionPtr session = adder(3);
  fake::current().device = 2;
  const at::Tensor input = counting(3);
  expect_doubled(run(session, {input, input})[0].cpu());
  EXPECT_EQ(fake::current().device, 2);
  fake::current().device = 0;
}

TEST_P(SessionTest, CannotRunUnderCapture) {
  const SessionPtr session = adder(1);
  const at::Tensor input = counting(1);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  fake::machine().begin_capture(stream);
  reset_provider();
  expect_error<c10::Error>([&] { return run(session, {input, input}); },
                           {"being captured", "before or after the capture"});
  EXPECT_EQ(provider_counters().computes, 0U);
  EXPECT_TRUE(fake::machine().end_capture(stream).empty());
}

TEST_P(SessionTest, TensorsOutliveTheSession) {
  at::Tensor sum;
  {
    const SessionPtr session = adder(1);
    const at::Tensor input = counting(1);
    sum = run(session, {input, input})[0];
  }
  expect_doubled(sum.cpu());
}

TEST_P(SessionTest, AProviderWithoutAnyPartOfTheModelIsAnError) {
  expect_error<c10::Error>([] { return load(onnx::subtract(), on_device(name(), 1)); },
                           {name(), "no part of the model", device(1).str()});
}

TEST_P(SessionTest, RefusesADeviceThatTheProviderLacks) {
  expect_error<c10::ValueError>([] { return load(onnx::add(), on_device(name(), 4)); },
                                {"4", name()});
}

TEST_P(SessionTest, ASessionOnTheCpuLeavesTheCurrentDeviceAsItWasToo) {
  StringDict properties;
  properties.insert("graph_optimization_level", std::to_string(ORT_DISABLE_ALL));
  const SessionConfig config{.model = onnx::subtract(), .properties = properties};
  const SessionOptionsHandle options = config.make_options();
  const OrtEpDevice* plugin = find_ep_device(name(), device(2));
  ASSERT_NE(plugin, nullptr);
  check_status(api().SessionOptionsAppendExecutionProvider_V2(options.get(), environment(), &plugin,
                                                              1, nullptr, nullptr, 0));
  const auto session = c10::make_intrusive<Session>(config, options);
  EXPECT_EQ(fake::current().device, 0);
  EXPECT_TRUE(at::equal(run(session, {at::ones({2}), at::ones({2})})[0], at::zeros({2})));
  EXPECT_EQ(fake::current().device, 0);
}

TEST_P(SessionTest, NamesItsProviders) {
  const SessionPtr session = adder(1);
  EXPECT_EQ(session->providers(), (std::vector<std::string>{name(), "CPUExecutionProvider"}));
}

TEST_P(SessionTest, OneSessionPerDeviceAndThreadsOnEach) {
  std::vector<std::thread> threads;
  std::vector<int> wrong(fake::kDevices, 0);
  std::vector<SessionPtr> sessions;
  for (int index = 0; index < fake::kDevices; ++index) {
    sessions.push_back(adder(index));
  }
  for (int index = 0; index < fake::kDevices; ++index) {
    threads.emplace_back([&, index] {
      const c10::Stream stream = new_stream(index);
      const Using current(stream);
      for (int turn = 0; turn < 50; ++turn) {
        const at::Tensor input = at::full({8}, turn).to(at::kFloat).to(device(index));
        const at::Tensor sum = run(sessions[static_cast<size_t>(index)], {input, input})[0];
        if (!at::equal(read_on(stream, sum), at::full({8}, 2 * turn).to(at::kFloat))) {
          ++wrong[static_cast<size_t>(index)];
        }
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, std::vector<int>(fake::kDevices, 0));
}

TEST_P(SessionTest, ThreadsShareOneSession) {
  const SessionPtr session = adder(1);
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int number = 0; number < 4; ++number) {
    threads.emplace_back([&, number] {
      const c10::Stream stream = new_stream(1);
      const Using current(stream);
      for (int turn = 0; turn < 50; ++turn) {
        const at::Tensor input = at::full({8}, number * 100 + turn).to(at::kFloat).to(device(1));
        const at::Tensor sum = run(session, {input, input})[0];
        wrong += at::equal(read_on(stream, sum), input.cpu().mul(2)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(SessionTest, CannotBeMadeUnderCapture) {
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  fake::machine().begin_capture(stream);
  expect_error<c10::Error>([] { return adder(1); }, {"being captured"});
  EXPECT_TRUE(fake::machine().end_capture(stream).empty());
}

TEST_P(SessionTest, AValueThatWasAnInputOutlivesTheSession) {
  ValuePtr value = Value::from_tensor(counting(1));
  {
    const SessionPtr session = adder(1);
    Feeds feeds = session->feeds();
    feeds.set(0, value);
    feeds.set(1, value);
    static_cast<void>(session->run(feeds, session->all_outputs()));
  }
  value.reset();
  EXPECT_EQ(live_objects().values, 0);
}

TEST_P(SessionTest, MemoryIsReusedAfterTheReadersOfAnOutput) {
  const SessionPtr session = adder(1);
  const c10::Stream reader = new_stream(1);
  const at::Tensor input = counting(1);
  at::Tensor copy;
  {
    const at::Tensor sum = run(session, {input, input})[0];
    const ValuePtr value = Value::from_tensor(sum);
    const Using current(reader);
    copy = value->to_tensor().clone();  // waits in `reader`
  }
  // Reading it has to come before what the next run writes.
  const at::Tensor fives = at::full({4}, 5.F).to(device(1));
  const at::Tensor next = run(session, {fives, fives})[0];
  static_cast<void>(next.cpu());
  expect_doubled(read_on(reader, copy));
}

TEST_P(SessionTest, ASessionOfParallelNodesWaitsOnTheHostUnlessItHasAStream) {
  const SessionPtr session = load(onnx::add(), on_device(name(), 1), /*moves=*/false, ORT_PARALLEL);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);
  reset_provider();
  const at::Tensor sum = run(session, {input, input})[0];
  EXPECT_EQ(provider_counters().stream_waits > 0, !is_native());
  expect_doubled(read_on(stream, sum));
}

class NativeSessionTest : public SessionTest {};
INSTANTIATE_TEST_SUITE_P(Providers, NativeSessionTest, ::testing::Values("native"),
                         [](const auto& param) { return std::string(param.param); });

TEST_P(NativeSessionTest, AllocatesFromPyTorch) {
  const SessionPtr session = adder(1);
  const at::Tensor input = counting(1);
  reset_provider();
  const at::Tensor sum = run(session, {input, input})[0];
  EXPECT_EQ(fake::device_of_block(sum.const_data_ptr()), 1);
  const FakeGpuEpCounters counters = provider_counters();
  EXPECT_GE(counters.external, 1U);
  EXPECT_EQ(counters.external, counters.allocations);
}

TEST_P(NativeSessionTest, AnOutputsMemoryIsNotReusedBeforeItsReadersAreDone) {
  const SessionPtr session = adder(1);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);
  at::Tensor copy;
  {
    const at::Tensor sum = run(session, {input, input})[0];
    copy = sum.clone();  // waits in `stream`, while `sum` is given back
  }
  const at::Tensor fives = at::full({4}, 5.F).to(device(1));
  static_cast<void>(run(session, {fives, fives})[0]);
  expect_doubled(read_on(stream, copy));
}

TEST_P(NativeSessionTest, WorksOnTheDefaultStreamWithPyTorchsAllocator) {
  const SessionPtr session = adder(1);
  const at::Tensor input = counting(1);
  reset_provider();
  static_cast<void>(taken());
  const at::Tensor sum = run(session, {input, input})[0];
  EXPECT_EQ(provider_compute(0).stream, nullptr);
  const Lines lines = taken();  // of a run on the stream that is current: no event
  EXPECT_TRUE(std::ranges::none_of(lines, [](const std::string& line) {
    return line.starts_with("record(") || line.starts_with("block(");
  }));
}

TEST_P(NativeSessionTest, AnInputThatIsAnOutputIsCopied) {
  const SessionPtr session = load(
      onnx::model({{"Add", {"a", "a"}, {"c"}}}, {{"a"}}, {{"a"}, {"c"}}), on_device(name(), 1));
  const at::Tensor input = counting(1, 5).slice(0, 1);  // no block of the allocator's begins there
  const std::vector<at::Tensor> results = run(session, {input});
  EXPECT_NE(results[0].data_ptr(), input.data_ptr());
  EXPECT_TRUE(at::equal(results[0].cpu(), at::tensor({1.F, 2.F, 3.F, 4.F})));
  EXPECT_TRUE(at::equal(results[1].cpu(), at::tensor({2.F, 4.F, 6.F, 8.F})));
}

TEST_P(NativeSessionTest, SavesNoAddresses) {
  Provider provider = on_device(name(), 1);
  provider.options.insert("gpu_external_alloc", "1");
  provider.options.insert("user_compute_stream", "2");
  const SessionConfig config{.model = onnx::add(), .providers = {provider}};
  const SessionState state = config.state();
  const auto& saved = std::get<4>(state);
  EXPECT_EQ(std::get<1>(saved[0]).size(), 1U);
  EXPECT_EQ(std::get<1>(saved[0]).at("device_id"), "1");
}

TEST_P(NativeSessionTest, RefusesWhatIsNoStream) {
  Provider provider = on_device(name(), 1);
  provider.options.insert("user_compute_stream", "7");
  expect_error<c10::ValueError>([&] { return load(onnx::add(), provider); },
                                {"user_compute_stream", "7"});
}

TEST_P(NativeSessionTest, RefusesASecondAcceleratorWithAnOrderOfItsOwn) {
  expect_error<c10::ValueError>(
      [] {
        return c10::make_intrusive<Session>(SessionConfig{
            .model = onnx::add(), .providers = {on_device(kPlugin, 1), on_device(name(), 1)}});
      },
      {kPlugin, name(), "one session"});
}

TEST_P(NativeSessionTest, TakesAStreamOfTheUsers) {
  const uintptr_t handle = fake::machine().make_external_stream(1);
  {
    Provider provider = on_device(name(), 1);
    provider.options.insert("user_compute_stream", std::to_string(handle));
    const SessionPtr session = load(onnx::add(), provider);
    const at::Tensor input = counting(1);
    reset_provider();
    const at::Tensor sum = run(session, {input, input})[0];
    EXPECT_EQ(reinterpret_cast<uintptr_t>(provider_compute(0).stream), handle);
    expect_doubled(sum.cpu());
  }
  fake::machine().synchronize_device(1);
  fake::machine().destroy_external_stream(handle);
}

}  // namespace
}  // namespace ortdl::test
