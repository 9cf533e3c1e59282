#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <ortdl/session.h>

#include <thread>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class SessionTest : public CountedTest {};

using onnx::Shape;

TEST_F(SessionTest, Runs) {
  const SessionPtr session = load(onnx::subtract());
  const at::Tensor left = at::tensor({5.F, 7.F});
  const at::Tensor right = at::tensor({1.F, 10.F});
  const std::vector<at::Tensor> results = run(session, {left, right});
  ASSERT_EQ(results.size(), 1U);
  EXPECT_TRUE(at::equal(results[0], at::tensor({4.F, -3.F})));
  EXPECT_FALSE(results[0].requires_grad());
  EXPECT_TRUE(at::equal(left, at::tensor({5.F, 7.F})));
}

TEST_F(SessionTest, TakesOpenDimensionsOfAnySize) {
  const SessionPtr session = load(onnx::add(Shape({"batch", 3})));
  for (const int64_t batch : {0, 1, 5}) {
    const at::Tensor input = at::rand({batch, 3});
    EXPECT_TRUE(at::equal(run(session, {input, input})[0], input.add(input)));
  }
}

TEST_F(SessionTest, TakesAnyRankWhereTheModelLeavesItOpen) {
  const SessionPtr session = load(onnx::add());
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{}, {4}, {2, 3}, {1, 2, 3, 4}}) {
    const at::Tensor input = at::rand(sizes);
    EXPECT_TRUE(at::equal(run(session, {input, input})[0], input.add(input)));
  }
}

TEST_F(SessionTest, RunsWithoutInputs) {
  const SessionPtr session =
      load(onnx::model({{"Add", {"w", "w"}, {"c"}}}, {}, {{"c"}}, {{"w", at::full({2}, 4.F)}}));
  EXPECT_TRUE(at::equal(run(session, {})[0], at::full({2}, 8.F)));
}

TEST_F(SessionTest, PassesEveryTypeThrough) {
  for (const ElementType& type : element_types()) {
    if (type.scalar == at::ScalarType::Undefined) {
      continue;
    }
    const SessionPtr session = load(onnx::pass_through(type.onnx, Shape({"n", "m"})));
    const at::Tensor input = patterned({2, 128}, type.scalar);
    const at::Tensor output = run(session, {input})[0];
    EXPECT_TRUE(same_bits(output, input)) << type.name;
    EXPECT_NE(output.data_ptr(), input.data_ptr()) << type.name;
  }
}

TEST_F(SessionTest, NeverGivesAnInputsMemory) {
  const at::Tensor base = at::arange(12, at::kFloat);
  const std::vector<at::Tensor> models{
      onnx::pass_through(), onnx::unary("Identity"),
      onnx::model({{"Identity", {"x"}, {"y"}}}, {{"x"}}, {{"y"}, {"x"}}),
      onnx::model({{"Flatten", {"x"}, {"y"}}}, {{"x"}}, {{"y"}})};
  for (const at::Tensor& model : models) {
    const SessionPtr session = load(model);
    for (const at::Tensor& input : {base.narrow(0, 4, 4), base, base.view({3, 4}).t()}) {
      const at::Tensor before = input.clone();
      for (at::Tensor output : run(session, {input})) {
        EXPECT_FALSE(output.is_alias_of(base));
        EXPECT_TRUE(at::equal(output.flatten(), before.flatten()));
        output.fill_(-1);
      }
      EXPECT_TRUE(at::equal(input, before));
    }
  }
}

TEST_F(SessionTest, NeverGivesAWeightsMemory) {
  const at::Tensor weight = at::tensor({2.F, 3.F});
  SessionPtr session =
      load(onnx::model({{"Mul", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}, {"w"}}, {{"w", weight}}));
  const at::Tensor first = run(session, {at::ones({2})})[1];
  EXPECT_TRUE(at::equal(first, weight));
  first.zero_();
  const std::vector<at::Tensor> again = run(session, {at::ones({2})});
  EXPECT_TRUE(at::equal(again[0], weight));
  EXPECT_TRUE(at::equal(again[1], weight));
  session.reset();
  EXPECT_TRUE(at::equal(again[1], weight));
}

TEST_F(SessionTest, ReadsInputsOfEveryLayoutRight) {
  const SessionPtr session = load(onnx::subtract());
  const at::Tensor base = at::arange(12, at::kFloat).view({3, 4});
  const at::Tensor zero = at::zeros({1});
  for (const at::Tensor& input :
       {base.t(), base.slice(1, 0, 4, 2), base[1].expand({2, 4}), base._neg_view(),
        at::_efficientzerotensor({2}, at::TensorOptions(at::kFloat)), base.narrow(0, 2, 1)}) {
    const at::Tensor expected = input.clone().resolve_neg();
    EXPECT_TRUE(at::equal(run(session, {input, zero})[0], expected)) << input.sizes();
    EXPECT_TRUE(at::equal(run(session, {zero, input})[0], expected.neg())) << input.sizes();
  }
}

TEST_F(SessionTest, LeavesInputsAsTheyWere) {
  const SessionPtr session = load(onnx::add());
  at::Tensor input = at::ones({4});
  const int64_t version = input._version();
  static_cast<void>(run(session, {input, input}));
  EXPECT_EQ(input._version(), version);
  EXPECT_EQ(input.storage().use_count(), 1U);
  EXPECT_EQ(input.resize_({100}).numel(), 100);
}

TEST_F(SessionTest, GivesTheOutputsThatAreAskedFor) {
  const SessionPtr session =
      load(onnx::model({{"Neg", {"x"}, {"a"}}, {"Abs", {"x"}, {"b"}}}, {{"x"}}, {{"a"}, {"b"}}));
  const at::Tensor input = at::tensor({-2.F});
  const std::vector<at::Tensor> swapped = run_for(*session, {input}, {1, 0});
  EXPECT_EQ(swapped.at(0).item<float>(), 2);
  EXPECT_TRUE(at::equal(run(session, {at::tensor({-3.F})})[1], at::tensor({3.F})));
  const std::vector<at::Tensor> twice = run_for(*session, {input}, {1, 1});
  ASSERT_EQ(twice.size(), 2U);
  EXPECT_NE(twice[0].data_ptr(), twice[1].data_ptr());
  twice[0].zero_();
  EXPECT_EQ(twice[1].item<float>(), 2);
}

TEST_F(SessionTest, RunsUnderEveryGradMode) {
  const SessionPtr session = load(onnx::add());
  const at::Tensor leaf = at::ones({2}).requires_grad_();
  {
    const at::NoGradGuard no_grad;
    EXPECT_TRUE(at::equal(run(session, {leaf, leaf})[0], at::full({2}, 2.F)));
  }
  const c10::InferenceMode inference;
  const at::Tensor output = run(session, {leaf, at::ones({2})})[0];
  EXPECT_TRUE(output.is_inference());
  EXPECT_TRUE(at::equal(output, at::full({2}, 2.F)));
}

TEST_F(SessionTest, DiesBeforeItsOutputs) {
  SessionPtr session = load(onnx::add());
  std::vector<at::Tensor> outputs = run(session, {at::full({1000}, 2.F), at::ones({1000})});
  session.reset();
  EXPECT_EQ(outputs[0].add_(1).sum().item<float>(), 4000);
}

TEST_F(SessionTest, DiesOnAnyThread) {
  SessionPtr session = load(onnx::add());
  std::vector<at::Tensor> outputs = run(session, {at::ones({2}), at::ones({2})});
  std::thread([mine = std::move(session)]() mutable { mine.reset(); }).join();
  std::thread([mine = std::move(outputs)]() mutable { mine.clear(); }).join();
}

TEST_F(SessionTest, TenThousandRunsLeaveNothing) {
  const SessionPtr session = load(onnx::pass_through());
  auto freed = std::make_shared<std::atomic<int>>(0);
  const int64_t values = live_objects().values;
  for (int i = 0; i < 10'000; ++i) {
    static_cast<void>(run(session, {tracked({2}, freed)}));
  }
  EXPECT_EQ(*freed, 10'000);
  EXPECT_EQ(live_objects().values, values);
}

TEST_F(SessionTest, RunsOnManyThreadsAtOnce) {
  const SessionPtr session = load(onnx::subtract());
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 8; ++thread) {
    threads.emplace_back([&right, session, thread] {
      for (int i = 0; i < 200; ++i) {
        const auto left = static_cast<float>(1000 * thread + i);
        const at::Tensor output = run(session, {at::full({16}, left), at::full({16}, 1.F)})[0];
        right += at::equal(output, at::full({16}, left - 1)) ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 8 * 200);
}

}  // namespace
}  // namespace ortdl::test
