#include <ATen/core/grad_mode.h>
#include <c10/core/InferenceMode.h>
#include <ortdl/value.h>

#include "support.h"

// What autograd is told of writes, and inference mode, in which it is told nothing.
namespace ortdl::test {
namespace {

class ValueVersionTest : public CountedTest {};

TEST_F(ValueVersionTest, IsSharedWithTheSource) {
  const at::Tensor source = at::ones({3});
  const ValuePtr value = Value::from_tensor(source);
  const at::Tensor first = value->to_tensor();
  const at::Tensor second = value->to_tensor();
  const int64_t start = source._version();
  first.add_(1);
  EXPECT_EQ(source._version(), start + 1);
  EXPECT_EQ(second._version(), start + 1);
  source.mul_(2);
  EXPECT_EQ(first._version(), start + 2);
  value->bump_version();
  EXPECT_EQ(source._version(), start + 3);
  EXPECT_EQ(first._version(), start + 3);
  EXPECT_EQ(second._version(), start + 3);
}

TEST_F(ValueVersionTest, IsSharedByTensorsOfTheRuntimesMemory) {
  const ValuePtr value = held(runtime_value(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {2}));
  const at::Tensor first = value->to_tensor();
  const at::Tensor second = value->to_tensor();
  first.zero_();
  EXPECT_EQ(second._version(), 1);
  value->bump_version();
  EXPECT_EQ(first._version(), 2);
  EXPECT_EQ(second._version(), 2);
}

TEST_F(ValueVersionTest, IsNotSharedWithACopy) {
  const at::Tensor source = at::ones({3});
  const int64_t start = source._version();
  const ValuePtr value = Value::from_tensor(source, Copy::kAlways);
  value->bump_version();
  EXPECT_EQ(source._version(), start);
  const ValuePtr shared = Value::from_tensor(source);
  shared->to_tensor(Copy::kAlways).add_(1);
  EXPECT_EQ(source._version(), start);
}

TEST_F(ValueVersionTest, MakesBackwardNoticeAWrite) {
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const at::Tensor saved = leaf.exp();
  {
    const at::NoGradGuard no_grad;
    Value::from_tensor(saved)->to_tensor().zero_();
  }
  expect_error<c10::Error>([&] { saved.sum().backward(); }, {"modified by an inplace operation"});
}

TEST_F(ValueVersionTest, MakesBackwardNoticeABump) {
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const at::Tensor saved = leaf.exp();
  {
    const at::NoGradGuard no_grad;
    Value::from_tensor(saved)->bump_version();
  }
  expect_error<c10::Error>([&] { saved.sum().backward(); }, {"modified by an inplace operation"});
}

TEST_F(ValueVersionTest, LeavesBackwardAloneWithoutAWrite) {
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const at::Tensor saved = leaf.exp();
  {
    const at::NoGradGuard no_grad;
    EXPECT_EQ(Value::from_tensor(saved)->to_tensor()._version(), 0);
  }
  saved.sum().backward();
  EXPECT_TRUE(at::equal(leaf.grad(), saved.detach()));
}

TEST_F(ValueVersionTest, IsNotKeptForInferenceTensors) {
  at::Tensor source;
  {
    const c10::InferenceMode inference;
    source = at::ones({3});
    const ValuePtr value = Value::from_tensor(source);
    EXPECT_EQ(value->data(), source.data_ptr());
    const at::Tensor back = value->to_tensor();
    EXPECT_TRUE(back.is_inference());
    back.add_(1);
    value->bump_version();
    EXPECT_EQ(source[0].item<float>(), 2);
  }
  const ValuePtr value = Value::from_tensor(source);
  value->bump_version();
  EXPECT_EQ(value->to_tensor().data_ptr(), source.data_ptr());
}

TEST_F(ValueVersionTest, CrossesIntoInferenceMode) {
  const at::Tensor source = at::ones({3});
  const ValuePtr value = Value::from_tensor(source);
  {
    const c10::InferenceMode inference;
    const at::Tensor inside = value->to_tensor();
    EXPECT_TRUE(inside.is_inference());
    EXPECT_EQ(inside.data_ptr(), source.data_ptr());
    EXPECT_EQ(Value::from_tensor(source)->data(), source.data_ptr());
  }
  EXPECT_FALSE(value->to_tensor().is_inference());
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  leaf.mul(value->to_tensor()).sum().backward();
  EXPECT_TRUE(at::equal(leaf.grad(), source));
}

TEST_F(ValueVersionTest, RequiresGradIsNoMatterInInferenceMode) {
  const at::Tensor leaf = at::ones({3}).requires_grad_();
  const c10::InferenceMode inference;
  EXPECT_EQ(Value::from_tensor(leaf)->data(), leaf.data_ptr());
}

}  // namespace
}  // namespace ortdl::test
