#include <ortdl/value.h>

#include <array>
#include <limits>

#include "support.h"

namespace ortdl::test {
namespace {

class ValuePackedTest : public CountedTest {};

constexpr std::array kPackedNumbers{21, 22, 23, 25, 26};

TEST_F(ValuePackedTest, SharesBytesOfEveryPackedType) {
  for (const int number : kPackedNumbers) {
    const ElementType& type = element_type_from_onnx(number);
    for (const int64_t last : {5, 8}) {
      const std::array<int64_t, 2> shape{3, last};
      const auto size = static_cast<int64_t>(type.bytes(3 * last));
      const at::Tensor bytes = patterned({size}, at::kByte, 11);
      const ValuePtr value = Value::from_packed(bytes, type, shape);
      EXPECT_EQ(&value->type(), &type);
      EXPECT_EQ(value->sizes(), at::IntArrayRef(shape));
      EXPECT_EQ(value->data(), bytes.data_ptr()) << type.name;
      EXPECT_EQ(value->nbytes(), static_cast<size_t>(size));
      EXPECT_EQ(value->type_string(), std::string("tensor(") + type.name + ")");
      const at::Tensor back = value->packed();
      EXPECT_EQ(back.data_ptr(), bytes.data_ptr()) << type.name;
      EXPECT_TRUE(same_bits(back, bytes)) << type.name;
    }
  }
}

TEST_F(ValuePackedTest, ReadsThemFromTheRuntimesMemory) {
  for (const int number : kPackedNumbers) {
    const ElementType& type = element_type_from_onnx(number);
    const ValuePtr value = held(runtime_value(type.ort, {7}));
    EXPECT_EQ(value->packed().data_ptr(), value->data());
    EXPECT_EQ(value->packed().numel(), static_cast<int64_t>(type.bytes(7))) << type.name;
  }
}

TEST_F(ValuePackedTest, RefusesADenseTensorOfThem) {
  for (const int number : {21, 22, 25, 26}) {
    const ElementType& type = element_type_from_onnx(number);
    const ValuePtr value = Value::from_packed(at::zeros({1}, at::kByte), type, {2});
    expect_error<c10::TypeError>([&] { return value->to_tensor(); },
                                 {type.name, "[2]", "OrtValue.packed()", "from_packed"});
  }
}

TEST_F(ValuePackedTest, ViewsTheBytesOfAlignedTypesToo) {
  const at::Tensor tensor = patterned({2, 3}, at::kFloat);
  const at::Tensor bytes = Value::from_tensor(tensor)->packed();
  EXPECT_EQ(bytes.scalar_type(), at::kByte);
  EXPECT_EQ(bytes.data_ptr(), tensor.data_ptr());
  EXPECT_EQ(bytes.sizes(), at::IntArrayRef({24}));
  EXPECT_EQ(Value::from_tensor(at::scalar_tensor(1.F))->packed().numel(), 4);
  EXPECT_EQ(Value::from_tensor(at::empty({0, 2}))->packed().numel(), 0);
}

TEST_F(ValuePackedTest, SharesAFloat4Tensor) {
  const at::Tensor bytes = patterned({3, 4}, at::kByte, 33);
  const at::Tensor pairs = bytes.view(at::ScalarType::Float4_e2m1fn_x2);
  for (const Copy copy : {Copy::kNever, Copy::kAlways}) {
    const ValuePtr value = Value::from_tensor(pairs, copy);
    EXPECT_EQ(value->data() == bytes.data_ptr(), copy == Copy::kNever);
    EXPECT_STREQ(value->type().name, "float4e2m1");
    EXPECT_EQ(value->sizes(), at::IntArrayRef({3, 8}));
    EXPECT_EQ(value->nbytes(), 12U);
    const at::Tensor back = value->to_tensor();
    EXPECT_EQ(back.data_ptr(), value->data());
    EXPECT_TRUE(same_bits(back, pairs));
    EXPECT_TRUE(same_bits(value->to_tensor(Copy::kAlways), pairs));
  }
}

TEST_F(ValuePackedTest, CopiesAStridedFloat4Tensor) {
  const at::Tensor bytes = patterned({3, 4}, at::kByte, 33);
  const at::Tensor turned = bytes.view(at::ScalarType::Float4_e2m1fn_x2).t();
  expect_error<c10::ValueError>([&] { return Value::from_tensor(turned); }, {"not contiguous"});
  const ValuePtr value = Value::from_tensor(turned, Copy::kIfNeeded);
  EXPECT_EQ(value->sizes(), at::IntArrayRef({4, 6}));
  EXPECT_TRUE(at::equal(value->packed().view({4, 3}), bytes.t()));
}

TEST_F(ValuePackedTest, RefusesHalfAFloat4Pair) {
  const ElementType& float4 = element_type_from_onnx(23);
  const ValuePtr odd = Value::from_packed(at::zeros({2}, at::kByte), float4, {3});
  expect_error<c10::TypeError>([&] { return odd->to_tensor(); }, {"float4e2m1", "[3]", "packed()"});
  const ValuePtr scalar = Value::from_packed(at::zeros({1}, at::kByte), float4, {});
  expect_error<c10::TypeError>([&] { return scalar->to_tensor(); }, {"float4e2m1", "packed()"});
  const at::Tensor pair = at::zeros({1}, at::kByte).view(at::ScalarType::Float4_e2m1fn_x2)[0];
  expect_error<c10::ValueError>([&] { return Value::from_tensor(pair); },
                                {"0-d", "float4_e2m1fn_x2"});
}

TEST_F(ValuePackedTest, RefusesBytesThatDoNotFit) {
  const ElementType& int4 = element_type_from_onnx(22);
  const auto make = [&int4](const at::Tensor& bytes, std::vector<int64_t> shape) {
    return [&int4, bytes, shape] { return Value::from_packed(bytes, int4, shape); };
  };
  const at::Tensor two = at::zeros({2}, at::kByte);
  expect_error<c10::ValueError>(make(two, {5}), {"int4", "[5]", "takes 3 bytes", "2 were given"});
  expect_error<c10::ValueError>(make(two, {}), {"takes 1 bytes"});
  expect_error<c10::ValueError>(make(two, {-4}), {"[-4]"});
  expect_error<c10::ValueError>(make(two, {-2, -2}), {"[-2, -2]"});
  expect_error<c10::ValueError>(make(two, {int64_t{1} << 40, int64_t{1} << 40}), {"shape"});
  expect_error<c10::ValueError>(make(two, {std::numeric_limits<int64_t>::max()}), {"shape"});
  expect_error<c10::ValueError>(make(at::zeros({2, 2}, at::kByte), {8}), {"flat", "flatten()"});
  expect_error<c10::ValueError>(make(at::zeros({4}, at::kByte).slice(0, 0, 4, 2), {4}),
                                {"not contiguous"});
  expect_error<c10::TypeError>(make(at::zeros({2}, at::kChar), {4}), {"torch.uint8"});
  expect_error<c10::TypeError>(make(at::Tensor(), {4}), {"torch.uint8"});
  EXPECT_EQ(make(two, {3})()->nbytes(), 2U);
  EXPECT_EQ(make(at::zeros({0}, at::kByte), {4, 0})()->nbytes(), 0U);
}

TEST_F(ValuePackedTest, RefusesTypesThatAreNotPacked) {
  expect_error<c10::TypeError>(
      [] { return Value::from_packed(at::zeros({4}, at::kByte), element_type(at::kFloat), {1}); },
      {"int4", "not of float", "to_ortvalue"});
}

}  // namespace
}  // namespace ortdl::test
