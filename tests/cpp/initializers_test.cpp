#include <ortdl/initializers.h>
#include <ortdl/session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class InitializersTest : public CountedTest {};

// y = x * w.
at::Tensor scaled() {
  return onnx::model({{"Mul", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}}, {{"w", at::ones({4})}});
}

SessionPtr session_of(const at::Tensor& model, std::vector<NamedValue> initializers) {
  return c10::make_intrusive<Session>(
      SessionConfig{.model = model, .initializers = std::move(initializers)});
}

at::Tensor run_on_ones(const Session& session) { return session.run({at::ones({4})}).at(0); }

TEST_F(InitializersTest, TheNextRunSeesWrites) {
  const at::Tensor weight = at::full({4}, 2.0F);
  const SessionPtr first = session_of(scaled(), {{"w", Value::from_tensor(weight)}});
  const SessionPtr second = session_of(scaled(), {{"w", Value::from_tensor(weight)}});
  EXPECT_TRUE(same_bits(run_on_ones(*first), weight));
  weight.mul_(3);
  EXPECT_TRUE(same_bits(run_on_ones(*first), at::full({4}, 6.0F)));
  EXPECT_TRUE(same_bits(run_on_ones(*second), at::full({4}, 6.0F)));
}

TEST_F(InitializersTest, TheSessionOwnsTheValues) {
  auto freed = std::make_shared<std::atomic<int>>(0);
  SessionPtr session =
      session_of(scaled(), {{"w", Value::from_tensor(tracked({4}, freed).fill_(2))}});
  EXPECT_EQ(*freed, 0);
  EXPECT_TRUE(same_bits(run_on_ones(*session), at::full({4}, 2.0F)));
  session.reset();
  EXPECT_EQ(*freed, 1);
}

TEST_F(InitializersTest, OnnxRuntimeGetsTheMemoryAndDoesNotOwnIt) {
  auto freed = std::make_shared<std::atomic<int>>(0);
  at::Tensor weight = tracked({4}, freed).fill_(2);
  SessionConfig config{.model = scaled(), .initializers = {{"w", Value::from_tensor(weight)}}};
  const SessionOptionsHandle options = config.make_options();
  InitializedOptions made = with_initializers(options.get(), config);
  ASSERT_EQ(made.borrowed.size(), 1U);
  void* data = nullptr;
  check_status(api().GetTensorMutableData(made.borrowed[0].get(), &data));
  EXPECT_EQ(data, weight.const_data_ptr());
  made = {};
  weight.reset();
  EXPECT_EQ(*freed, 0);
  config = {};
  EXPECT_EQ(*freed, 1);
}

TEST_F(InitializersTest, AFailedLoadLetsGo) {
  auto freed = std::make_shared<std::atomic<int>>(0);
  const at::Tensor broken =
      onnx::model({{"NoSuchOp", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}}, {{"w", at::ones({4})}});
  expect_error<OrtError>(
      [&] { return session_of(broken, {{"w", Value::from_tensor(tracked({4}, freed))}}); }, {});
  EXPECT_EQ(*freed, 1);
}

TEST_F(InitializersTest, WorkOnTheCpuOnly) {
  EXPECT_NO_THROW(require_cpu_for_initializers({}));
  EXPECT_NO_THROW(require_cpu_for_initializers({kCpuProvider}));
  expect_error<c10::ValueError>(
      [] { require_cpu_for_initializers({"OtherExecutionProvider", kCpuProvider}); },
      {"OtherExecutionProvider", "initializers"});
}

TEST_F(InitializersTest, OptionsOfTheCallerStayTheirs) {
  const SessionConfig config{.model = scaled(),
                             .initializers = {{"w", Value::from_tensor(at::full({4}, 2.0F))}}};
  const SessionOptionsHandle options = config.make_options();
  const auto with = c10::make_intrusive<Session>(config, options);
  const auto without = c10::make_intrusive<Session>(SessionConfig{.model = scaled()}, options);
  EXPECT_TRUE(same_bits(run_on_ones(*with), at::full({4}, 2.0F)));
  EXPECT_TRUE(same_bits(run_on_ones(*without), at::ones({4})));
}

TEST_F(InitializersTest, RefusesWhatTheModelHasNot) {
  const auto given = [](const std::string& name, const at::Tensor& tensor) {
    return [=] { return session_of(scaled(), {{name, Value::from_tensor(tensor)}}); };
  };
  expect_error<c10::ValueError>(given("v", at::ones({4})), {"'v'", "'w' (tensor(float), [4])"});
  expect_error<c10::TypeError>(given("w", at::ones({4}, at::kLong)), {"'w'", "tensor(int64)"});
  expect_error<c10::ValueError>(given("w", at::ones({5})), {"'w'", "[4]", "[5]"});
  const ValuePtr value = Value::from_tensor(at::ones({4}));
  expect_error<c10::ValueError>([&] { return session_of(scaled(), {{"w", value}, {"w", value}}); },
                                {"'w'", "twice"});
  expect_error<c10::TypeError>([&] { return session_of(scaled(), {{"w", nullptr}}); }, {"'w'"});
}

TEST_F(InitializersTest, AreNoPlaceForOutputs) {
  const at::Tensor weight = at::full({4}, 2.0F);
  const SessionPtr session = session_of(scaled(), {{"w", Value::from_tensor(weight)}});
  expect_error<c10::ValueError>([&] { session->run_into({weight}, {at::ones({4})}); },
                                {"initializer 'w'", "memory of its own"});
  EXPECT_TRUE(same_bits(weight, at::full({4}, 2.0F)));
}

TEST_F(InitializersTest, AreSavedAsTheyAre) {
  const at::Tensor weight = at::full({4}, 2.0F);
  const SessionPtr session = session_of(scaled(), {{"w", Value::from_tensor(weight)}});
  const SessionState state = session->config().state();
  weight.zero_();
  const Session loaded(SessionConfig::from_state(state));
  EXPECT_TRUE(same_bits(run_on_ones(loaded), at::full({4}, 2.0F)));
}

TEST_F(InitializersTest, LoadingTakesMemoryThatNobodyElseHolds) {
  std::vector<SavedInitializer> saved =
      save_initializers({{"w", Value::from_tensor(at::ones({4}))}});
  const void* bytes = std::get<at::Tensor>(saved[0]).const_data_ptr();
  const std::vector<NamedValue> copied = load_initializers(saved);
  EXPECT_NE(copied.at(0).value->data(), bytes);
  const std::vector<NamedValue> taken = load_initializers(std::move(saved));
  EXPECT_EQ(taken.at(0).value->data(), bytes);
  EXPECT_TRUE(same_bits(taken[0].value->to_tensor(), copied[0].value->to_tensor()));
}

TEST_F(InitializersTest, RefusesADamagedState) {
  const std::vector<NamedValue> given{{"w", Value::from_tensor(at::ones({2, 2}))}};
  const SavedInitializer good = save_initializers(given).at(0);
  EXPECT_TRUE(same_bits(load_initializers({good}).at(0).value->to_tensor(), at::ones({2, 2})));
  const auto refused = [&](auto&& damage) {
    SavedInitializer bad = good;
    damage(bad);
    expect_error<c10::ValueError>([&] { return load_initializers({bad}); }, {});
  };
  refused([](SavedInitializer& bad) { std::get<1>(bad) = 0; });
  refused([](SavedInitializer& bad) { std::get<1>(bad) = 7; });
  refused([](SavedInitializer& bad) { std::get<2>(bad) = {-2, -2}; });
  refused([](SavedInitializer& bad) { std::get<2>(bad) = {2, 3}; });
  refused([](SavedInitializer& bad) { std::get<3>(bad) = at::Tensor(); });
  refused([](SavedInitializer& bad) { std::get<3>(bad) = at::ones({4}); });
  refused([](SavedInitializer& bad) { std::get<3>(bad) = at::ones({15}, at::kByte); });
}

}  // namespace
}  // namespace ortdl::test
