#include <c10/core/InferenceMode.h>
#include <ortdl/session.h>

#include <atomic>
#include <chrono>
#include <future>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

// With one intra-op thread PyTorch's threads do the work, with more ONNX Runtime's.
class AsyncRunTest : public CountedTest, public ::testing::WithParamInterface<int> {
 protected:
  static SessionPtr load(const at::Tensor& model) {
    SessionConfig config{.model = model};
    config.properties.insert("intra_op_num_threads", std::to_string(GetParam()));
    config.properties.insert("log_severity_level", "4");
    return c10::make_intrusive<Session>(config);
  }

  // PyTorch's thread lets go of a future a moment after it is complete.
  void TearDown() override {
    const auto left = [] { return live_objects().sessions + live_objects().values; };
    for (int i = 0; i < 2000 && left() > 0; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    CountedTest::TearDown();
  }
};

std::vector<at::Tensor> outputs_of(const FuturePtr& future) {
  future->waitAndThrow();
  return future->value().toTensorVector();
}

TEST_P(AsyncRunTest, GivesWhatRunReturns) {
  const SessionPtr session = load(onnx::subtract());
  const at::Tensor left = at::rand({64});
  const at::Tensor right = at::rand({64});
  const FuturePtr future = session->run_async({left, right});
  const std::vector<at::Tensor> outputs = outputs_of(future);
  ASSERT_EQ(outputs.size(), 1U);
  EXPECT_TRUE(same_bits(outputs[0], session->run({left, right})[0]));
  EXPECT_EQ(*future->elementType(), *c10::ListType::ofTensors());
}

TEST_P(AsyncRunTest, ManyAreInFlightFromSeveralThreads) {
  const SessionPtr session = load(onnx::subtract());
  const auto work = [&session](int thread) {
    std::vector<FuturePtr> futures;
    futures.reserve(50);
    for (int i = 0; i < 50; ++i) {
      futures.push_back(
          session->run_async({at::full({i + 1}, static_cast<float>(thread)), at::ones({i + 1})}));
    }
    for (int i = 0; i < 50; ++i) {
      if (!at::equal(outputs_of(futures[i])[0],
                     at::full({i + 1}, static_cast<float>(thread) - 1.F))) {
        return false;
      }
    }
    return true;
  };
  std::vector<std::future<bool>> threads;
  for (int thread = 0; thread < 4; ++thread) {
    threads.push_back(std::async(std::launch::async, work, thread));
  }
  for (std::future<bool>& thread : threads) {
    EXPECT_TRUE(thread.get());
  }
}

TEST_P(AsyncRunTest, ThrowsAtOnceWhatIsWrongWithInputs) {
  const SessionPtr session = load(onnx::subtract());
  expect_error<c10::ValueError>([&] { return session->run_async({at::ones({2})}); },
                                {"takes 2 inputs", "left: tensor(float)"});
  expect_error<c10::TypeError>(
      [&] { return session->run_async({at::ones({2}), at::ones({2}, at::kDouble)}); },
      {"'right'", "torch.float64"});
}

TEST_P(AsyncRunTest, TheFutureHasTheErrorOfTheRun) {
  const SessionPtr session = load(onnx::subtract());
  const FuturePtr future = session->run_async({at::ones({2}), at::ones({3})});
  expect_error<OrtError>([&] { return outputs_of(future); }, {"Sub"});
  EXPECT_EQ(ort_error_code([&] { return outputs_of(future); }),
            ort_error_code([&] { return session->run({at::ones({2}), at::ones({3})}); }));
}

TEST_P(AsyncRunTest, TerminateEndsIt) {
  const SessionPtr session = load(onnx::subtract());
  const SharedRunOptions options = make_run_options();
  terminate(options);
  Feeds feeds = session->feeds();
  feeds.set(0, at::ones({2}));
  feeds.set(1, at::ones({2}));
  const FuturePtr future = session->run_async(std::move(feeds), {0}, options);
  expect_error<OrtError>([&] { return outputs_of(future); }, {"terminate"});
}

TEST_P(AsyncRunTest, GivesTheOutputsAskedFor) {
  const SessionPtr session =
      load(onnx::model({{"Neg", {"x"}, {"y"}}, {"Abs", {"x"}, {"z"}}}, {{"x"}}, {{"y"}, {"z"}}));
  Feeds feeds = session->feeds();
  feeds.set(0, at::tensor({-2.F}));
  const std::vector<at::Tensor> outputs =
      outputs_of(session->run_async(std::move(feeds), {1, 0, 1}));
  ASSERT_EQ(outputs.size(), 3U);
  EXPECT_TRUE(at::equal(outputs[0], at::tensor({2.F})));
  EXPECT_TRUE(at::equal(outputs[1], at::tensor({2.F})));
  EXPECT_NE(outputs[0].data_ptr(), outputs[2].data_ptr());
}

TEST_P(AsyncRunTest, NeedsNothingButItself) {
  const auto freed = std::make_shared<std::atomic<int>>(0);
  const FuturePtr future = load(onnx::pass_through())->run_async({tracked({1000}, freed)});
  future->waitAndThrow();
  // The output is a copy, and all else that the run had is gone.
  EXPECT_EQ(freed->load(), 1);
  EXPECT_EQ(live_objects().sessions, 0);
  EXPECT_EQ(outputs_of(future)[0].numel(), 1000);
}

TEST_P(AsyncRunTest, MayBeForgotten) {
  for (int i = 0; i < 20; ++i) {
    static_cast<void>(load(onnx::subtract())->run_async({at::ones({2}), at::ones({2})}));
  }
  const FuturePtr last = load(onnx::subtract())->run_async({at::ones({2}), at::ones({2})});
  last->wait();
}

TEST_P(AsyncRunTest, WhatFollowsMayDropTheSessionAndRunIt) {
  const auto session = std::make_shared<SessionPtr>(load(onnx::subtract()));
  const at::Tensor one = at::ones({1});
  const FuturePtr first = (*session)->run_async({one, one});
  const FuturePtr then = first->then(
      [session, one](c10::ivalue::Future& ended) {
        const at::Tensor zero = ended.value().toTensorVector()[0];
        const SessionPtr last = std::move(*session);
        return c10::IValue(last->run({one, zero})[0]);
      },
      c10::TensorType::get());
  then->waitAndThrow();
  EXPECT_TRUE(at::equal(then->value().toTensor(), one));
}

TEST_P(AsyncRunTest, HasTheModesOfTheCaller) {
  const SessionPtr session = load(onnx::subtract());
  const at::Tensor one = at::ones({1});
  FuturePtr inferred;
  {
    const c10::InferenceMode mode;
    inferred = session->run_async({one, one});
  }
  EXPECT_TRUE(outputs_of(inferred)[0].is_inference());
  EXPECT_FALSE(outputs_of(session->run_async({one, one}))[0].is_inference());
}

INSTANTIATE_TEST_SUITE_P(Threads, AsyncRunTest, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace ortdl::test
