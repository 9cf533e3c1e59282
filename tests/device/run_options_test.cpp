#include <ortdl/session.h>

#include <algorithm>
#include <atomic>
#include <string_view>
#include <thread>

#include "device_test.h"
#include "fake_provider.h"
#include "onnx_bytes.h"

// Runs with options of the caller's: other runs may have them too, so they are not given a stream.
namespace ortdl::test {
namespace {

class RunOptionsTest : public DeviceTest, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    DeviceTest::SetUp();
    register_fake_providers();
    reset_provider();
    OrtRunOptions* created = nullptr;
    check_status(api().CreateRunOptions(&created));
    options_.reset(created);
  }

  [[nodiscard]] static bool is_plugin() { return std::string_view(GetParam()) == "plugin"; }

  static SessionPtr load(const at::Tensor& model) {
    StringDict properties;
    properties.insert("graph_optimization_level", std::to_string(ORT_DISABLE_ALL));
    const Provider provider = on_device(is_plugin() ? kPlugin : native_provider(), 1);
    return c10::make_intrusive<Session>(
        SessionConfig{.model = model, .properties = properties, .providers = {provider}});
  }

  std::vector<at::Tensor> run(const SessionPtr& session, const at::Tensor& input) {
    Feeds feeds = session->feeds();
    feeds.set(0, input);
    feeds.set(1, input);
    return session->run(feeds, session->all_outputs(), options_.get());
  }

  void end_without_waiting() {
    check_status(api().AddRunConfigEntry(options_.get(), kNoWaiting, "1"));
  }

  static void expect_doubled(const at::Tensor& sum) {
    EXPECT_TRUE(at::equal(sum, at::tensor({0.F, 2.F, 4.F, 6.F}))) << sum;
  }

  static constexpr const char* kNoWaiting = "disable_synchronize_execution_providers";
  RunOptionsHandle options_;
};

INSTANTIATE_TEST_SUITE_P(Providers, RunOptionsTest, ::testing::Values("plugin", "native"),
                         [](const auto& param) { return std::string(param.param); });

// Without the wait before the run, a plug-in reads zeros.
TEST_P(RunOptionsTest, OrderHoldsAndTheOptionsStayAsTheyWere) {
  const SessionPtr session = load(onnx::add());
  for (const c10::Stream stream : {new_stream(1), default_stream(1), new_stream(1)}) {
    const Using current(stream);
    const at::Tensor input = counting(1);  // still waits in `stream`
    const at::Tensor sum = run(session, input)[0];
    EXPECT_EQ(Value::from_tensor(sum)->stream(), stream);
    expect_doubled(read_on(stream, sum));
  }
  EXPECT_EQ(api().GetRunConfigEntry(options_.get(), kNoWaiting), nullptr);
}

TEST_P(RunOptionsTest, OneObjectServesThreads) {
  const SessionPtr session = load(onnx::add());
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int number = 0; number < 3; ++number) {
    threads.emplace_back([&, number] {
      const c10::Stream stream = new_stream(1);
      const Using current(stream);
      for (int turn = 0; turn < 30; ++turn) {
        const at::Tensor input = at::full({8}, number * 100 + turn).to(at::kFloat).to(device(1));
        const at::Tensor sum = run(session, input)[0];
        wrong += at::equal(read_on(stream, sum), input.cpu().mul(2)) ? 0 : 1;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(wrong, 0);
}

TEST_P(RunOptionsTest, TerminateEndsTheRunAndLeavesTheSessionUsable) {
  const SessionPtr session = load(onnx::add());
  check_status(api().RunOptionsSetTerminate(options_.get()));
  const at::Tensor input = counting(1);
  EXPECT_EQ(ort_error_code([&] { return run(session, input); }), ORT_FAIL);
  check_status(api().RunOptionsUnsetTerminate(options_.get()));
  expect_doubled(run(session, input)[0].cpu());
}

TEST_P(RunOptionsTest, ARunThatNobodyCouldWaitForIsRefused) {
  const SessionPtr session = load(onnx::add());
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);
  end_without_waiting();
  reset_provider();
  if (is_plugin()) {
    expect_error<c10::ValueError>([&] { return run(session, input); }, {kNoWaiting});
    EXPECT_EQ(provider_counters().computes, 0U);
    return;
  }
  const at::Tensor sum = run(session, input)[0];  // its stream is known
  EXPECT_EQ(provider_counters().stream_waits, 0U);
  expect_doubled(read_on(stream, sum));
}

TEST_P(RunOptionsTest, AnOutputOnTheCpuIsWaitedFor) {
  const SessionPtr session =
      load(onnx::model({{"Add", {"a", "b"}, {"c"}}, {"Neg", {"c"}, {"negative"}}}, {{"a"}, {"b"}},
                       {{"c"}, {"negative"}}));
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const at::Tensor input = counting(1);
  const std::vector<at::Tensor> results = run(session, input);
  EXPECT_EQ(results[1].device(), at::kCPU);
  EXPECT_TRUE(at::equal(results[1], at::tensor({0.F, -2.F, -4.F, -6.F})));
  expect_doubled(read_on(stream, results[0]));
  end_without_waiting();
  expect_error<c10::ValueError>([&] { return run(session, input); }, {kNoWaiting});
}

// Without `Lane::reusing`, the second run writes before `reader` has read.
TEST_P(RunOptionsTest, MemoryIsReusedAfterTheReadersOfAnOutput) {
  const SessionPtr session = load(onnx::add());
  const c10::Stream reader = new_stream(1);
  const at::Tensor input = counting(1);
  at::Tensor copy;
  {
    const ValuePtr value = Value::from_tensor(run(session, input)[0]);
    const Using current(reader);
    copy = value->to_tensor().clone();  // waits in `reader`
  }
  const at::Tensor next = run(session, at::full({4}, 5.F).to(device(1)))[0];
  static_cast<void>(next.cpu());
  expect_doubled(read_on(reader, copy));
}

class LaneTest : public DeviceTest {};

TEST_F(LaneTest, MemoryGivenBackDuringARunWithoutAStreamIsWaitedForByTheHost) {
  register_fake_providers();
  const std::shared_ptr<Lanes> lanes =
      Lanes::of_plugin(device(1), find_ep_device(kPlugin, device(1)));
  ASSERT_NE(lanes, nullptr);
  const c10::Stream reader = new_stream(1);
  const auto host_waits = [&] {
    static_cast<void>(taken());
    lanes->reuse_after(reader);
    const Lines lines = taken();
    return std::ranges::any_of(lines, [](const std::string& line) {
      return line.find("synchronize") != std::string::npos;
    });
  };
  EXPECT_FALSE(host_waits());
  {
    const Lanes::Loan run(*lanes, /*own=*/false);
    EXPECT_TRUE(host_waits());
    const Lanes::Loan other(*lanes, /*own=*/true);
    EXPECT_TRUE(host_waits());
  }
  EXPECT_FALSE(host_waits());
}

}  // namespace
}  // namespace ortdl::test
