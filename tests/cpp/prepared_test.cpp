#include <ortdl/prepared.h>
#include <ortdl/session.h>

#include <thread>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class PreparedTest : public CountedTest {};

using onnx::Shape;

TEST_F(PreparedTest, AThreadGetsItsOwnBack) {
  const std::vector<Node> inputs;
  const PreparedRuns runs(inputs, false);
  const Prepared* first = nullptr;
  {
    const Preparation loan = runs.take();
    first = loan.get();
  }
  EXPECT_EQ(runs.take().get(), first);
  const Preparation held = runs.take();
  const Preparation other = runs.take();
  EXPECT_EQ(held.get(), first);
  EXPECT_NE(other.get(), first);
}

TEST_F(PreparedTest, ItComesBackWithoutTheInputs) {
  const SessionPtr session = load(onnx::add());
  const at::Tensor x = at::ones({2});
  {
    const Preparation prepared = session->prepare();
    prepared->feeds.set(0, x);
    EXPECT_EQ(x.storage().use_count(), 2U);
  }
  EXPECT_EQ(x.storage().use_count(), 1U);
  const Preparation again = session->prepare();
  EXPECT_NO_THROW(again->feeds.set(0, x));
}

TEST_F(PreparedTest, SaysWhatChanged) {
  const SessionPtr session = load(onnx::add());
  const at::Tensor x = at::ones({2});
  const auto changes = [&](const at::Tensor& tensor) {
    const Preparation prepared = session->prepare();
    EXPECT_TRUE(prepared->feeds.set_in_place(0, tensor));
    const bool resized = prepared->feeds.take_resized();
    return std::pair(resized, prepared->feeds.take_renewed());
  };
  EXPECT_EQ(changes(x), std::pair(true, true));
  EXPECT_EQ(changes(x), std::pair(false, false));
  EXPECT_EQ(changes(at::zeros({2})), std::pair(false, true));
  EXPECT_EQ(changes(at::zeros({2, 1})), std::pair(true, true));
  EXPECT_FALSE(session->prepare()->feeds.set_in_place(0, at::ones({3, 3}).t()));
}

TEST_F(PreparedTest, DroppedOutputsAreWrittenIntoAgain) {
  const SessionPtr session = load(onnx::add(Shape({"n"})));
  const at::Tensor x = at::arange(4.F);
  const void* first = run(session, {x, x})[0].const_data_ptr();
  for (int i = 0; i < 3; ++i) {
    const std::vector<at::Tensor> outputs = run(session, {x, x});
    EXPECT_EQ(outputs[0].const_data_ptr(), first);
    EXPECT_TRUE(at::equal(outputs[0], x + x));
    EXPECT_EQ(outputs[0]._version(), 0);
    outputs[0].zero_();
  }
  const at::Tensor held = run(session, {x, x})[0];
  EXPECT_NE(run(session, {x, x})[0].const_data_ptr(), held.const_data_ptr());
  EXPECT_TRUE(at::equal(held, x + x));
}

TEST_F(PreparedTest, OutputsThatAreDroppedOnAnotherThreadToo) {
  const SessionPtr session = load(onnx::add(Shape({"n"})));
  std::vector<std::thread> threads;
  for (int i = 0; i < 200; ++i) {
    const at::Tensor x = at::full({4}, static_cast<float>(i));
    at::Tensor y = run(session, {x, x})[0];
    threads.emplace_back([taken = std::move(y), x] { EXPECT_TRUE(at::equal(taken, x + x)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
}

TEST_F(PreparedTest, IncompleteFeedsAreRefusedAndLeaveNothingStale) {
  const SessionPtr session = load(onnx::add(Shape({"n"})));
  const at::Tensor y = at::ones({2});
  for (int i = 0; i < 3; ++i) {
    run(session, {at::zeros({2}), y});
  }
  at::Tensor x = at::full({2}, 5.F);
  {
    const Preparation prepared = session->prepare();
    prepared->feeds.set(0, x);
    expect_error<c10::ValueError>(
        [&] { static_cast<void>(session->run(*prepared, session->all_outputs())); },
        {"was not given"});
  }
  EXPECT_TRUE(at::equal(run(session, {x, y})[0], at::full({2}, 6.F)));
}

TEST_F(PreparedTest, SomeOfTheOutputsAreOnlySome) {
  const std::string type = onnx::tensor_type(onnx::kFloat, Shape({"n"}));
  const SessionPtr session =
      load(onnx::model({{"Add", {"a", "a"}, {"b"}}, {"Mul", {"a", "a"}, {"c"}}}, {{"a", type}},
                       {{"b", type}, {"c", type}}));
  const at::Tensor x = at::full({2}, 3.F);
  for (int i = 0; i < 3; ++i) {
    const Preparation prepared = session->prepare();
    prepared->feeds.set(0, x);
    const std::vector<at::Tensor> all = session->run(*prepared, session->all_outputs());
    ASSERT_EQ(all.size(), 2U);
    const std::vector<at::Tensor> some =
        session->run(*prepared, session->all_outputs().slice(0, 1));
    ASSERT_EQ(some.size(), 1U);
    EXPECT_TRUE(at::equal(some[0], all[0]));
    EXPECT_NE(some[0].const_data_ptr(), all[0].const_data_ptr());
  }
}

TEST_F(PreparedTest, FeedsThatWereMovedAwayDoNotComeBack) {
  const SessionPtr session = load(onnx::add(Shape({"n"})));
  const at::Tensor x = at::ones({2});
  for (int i = 0; i < 2; ++i) {
    const Preparation prepared = session->prepare();
    const Feeds taken = std::move(prepared->feeds);
    EXPECT_EQ(taken.size(), 2U);
  }
  EXPECT_TRUE(at::equal(run(session, {x, x})[0], at::full({2}, 2.F)));
}

}  // namespace
}  // namespace ortdl::test
