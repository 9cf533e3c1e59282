#include <ortdl/prepared.h>
#include <ortdl/session.h>

#include <thread>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class PreparedTest : public CountedTest {};

using onnx::Shape;

SessionPtr load(const at::Tensor& model) {
  return c10::make_intrusive<Session>(SessionConfig{.model = model});
}

std::vector<at::Tensor> run(const SessionPtr& session, const std::vector<at::Tensor>& inputs) {
  return session->run(inputs);
}

TEST_F(PreparedTest, AThreadGetsItsOwnBack) {
  const PreparedRuns runs;
  const std::vector<Node> inputs;
  const Prepared* first = runs.take(inputs, false).get();
  EXPECT_EQ(runs.take(inputs, false).get(), first);
  const Preparation held = runs.take(inputs, false);
  const Preparation other = runs.take(inputs, false);
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
  const at::Tensor x = at::arange(4.F);
  for (int i = 0; i < 100; ++i) {
    at::Tensor y = run(session, {x, x})[0];
    std::thread([taken = std::move(y), x] { EXPECT_TRUE(at::equal(taken, x + x)); }).join();
  }
}

}  // namespace
}  // namespace ortdl::test
