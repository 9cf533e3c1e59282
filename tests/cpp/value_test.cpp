#include <ortdl/value.h>

#include <cstring>
#include <vector>

#include "support.h"

namespace ortdl::test {
namespace {

class ValueTest : public CountedTest {};

// Every dtype whose elements are one byte or more.
std::vector<const ElementType*> aligned_types() {
  std::vector<const ElementType*> types;
  for (const ElementType& type : element_types()) {
    if (!type.packed()) {
      types.push_back(&type);
    }
  }
  return types;
}

TEST_F(ValueTest, SharesATensorOfEveryType) {
  for (const ElementType* type : aligned_types()) {
    const at::Tensor tensor = patterned({4, 64}, type->scalar);
    const at::Tensor before = patterned({4, 64}, type->scalar);
    const ValuePtr value = Value::from_tensor(tensor);
    EXPECT_EQ(&value->type(), type);
    EXPECT_EQ(value->data(), tensor.data_ptr()) << type->name;
    EXPECT_EQ(value->sizes(), tensor.sizes()) << type->name;
    EXPECT_EQ(value->nbytes(), tensor.nbytes()) << type->name;
    EXPECT_EQ(value->device(), at::Device(at::kCPU));
    EXPECT_EQ(value->type_string(), std::string("tensor(") + type->name + ")");
    const at::Tensor back = value->to_tensor();
    EXPECT_EQ(back.data_ptr(), tensor.data_ptr()) << type->name;
    EXPECT_TRUE(same_bits(back, before)) << type->name;
  }
}

TEST_F(ValueTest, TellsTheRuntimeTheSame) {
  for (const ElementType* type : aligned_types()) {
    const at::Tensor tensor = patterned({3, 5}, type->scalar);
    const ValuePtr value = Value::from_tensor(tensor);
    OrtTensorTypeAndShapeInfo* raw = nullptr;
    check_status(api().GetTensorTypeAndShape(value->handle(), &raw));
    const ShapeInfoHandle info(raw);
    ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
    check_status(api().GetTensorElementType(raw, &element));
    EXPECT_EQ(element, type->ort);
    size_t count = 0;
    check_status(api().GetTensorShapeElementCount(raw, &count));
    EXPECT_EQ(count, 15U);
    void* data = nullptr;
    check_status(api().GetTensorMutableData(value->handle(), &data));
    EXPECT_EQ(data, tensor.data_ptr());
  }
}

TEST_F(ValueTest, SharesARuntimeValueOfEveryType) {
  for (const ElementType* type : aligned_types()) {
    const at::Tensor bits = patterned({2, 128}, type->scalar);
    const ValuePtr value = held(runtime_value(type->ort, {2, 128}));
    std::memcpy(value->data(), bits.const_data_ptr(), value->nbytes());
    const at::Tensor tensor = value->to_tensor();
    EXPECT_EQ(tensor.data_ptr(), value->data()) << type->name;
    EXPECT_TRUE(same_bits(tensor, bits)) << type->name;
    const ValuePtr again = Value::from_tensor(tensor);
    EXPECT_EQ(again->data(), value->data()) << type->name;
    EXPECT_EQ(&again->type(), type);
  }
}

TEST_F(ValueTest, KeepsThePayloadOfNaNs) {
  const auto narrow = at::tensor({0x7F800001, 0x7FC12345, -0x7FFFFF, -0x3EDCBB}, at::kInt);
  const auto wide = at::tensor({0x7FF0000000000001, 0x7FF8DEADBEEF0001}, at::kLong);
  for (const at::Tensor& tensor : {narrow.view(at::kFloat), wide.view(at::kDouble)}) {
    EXPECT_TRUE(tensor.isnan().all().item<bool>());
    EXPECT_TRUE(same_bits(Value::from_tensor(tensor)->to_tensor(), tensor));
    EXPECT_TRUE(same_bits(Value::from_tensor(tensor, Copy::kAlways)->to_tensor(), tensor));
  }
}

TEST_F(ValueTest, SharesEveryDenseLayout) {
  const at::Tensor base = at::arange(64, at::kFloat);
  const std::vector<at::Tensor> layouts{
      base.narrow(0, 7, 20),                    // an offset
      base.narrow(0, 3, 12).view({3, 4})[2],    // an offset in a view
      base.as_strided({1, 4, 1}, {999, 1, 7}),  // any stride where the size is 1
      at::ones(std::vector<int64_t>(64, 1)),    // as many dimensions as PyTorch copies
      at::scalar_tensor(3.5),                   // none
      at::empty({0}),
      at::empty({3, 0, 2}),
      base.narrow(0, 64, 0),
      at::empty({0, 5}).t(),
  };
  for (const at::Tensor& tensor : layouts) {
    const ValuePtr value = Value::from_tensor(tensor);
    const at::Tensor back = value->to_tensor();
    EXPECT_EQ(value->sizes(), tensor.sizes());
    EXPECT_EQ(value->data(), tensor.data_ptr()) << tensor.sizes();
    EXPECT_EQ(back.data_ptr(), tensor.data_ptr()) << tensor.sizes();
    EXPECT_TRUE(back.is_contiguous());
    EXPECT_TRUE(at::equal(back, tensor)) << tensor.sizes();
  }
}

TEST_F(ValueTest, WritesAreSeenOnBothSides) {
  at::Tensor tensor = at::zeros({4});
  const ValuePtr value = Value::from_tensor(tensor);
  at::Tensor back = value->to_tensor();
  back.fill_(3);
  EXPECT_EQ(tensor[0].item<float>(), 3);
  *static_cast<float*>(value->data()) = 8;
  EXPECT_EQ(tensor[0].item<float>(), 8);
}

TEST_F(ValueTest, CopiesWhatIsNotDenseWhereItMay) {
  const at::Tensor base = at::arange(24, at::kFloat).view({2, 3, 4});
  const at::Tensor image = at::arange(48, at::kFloat).view({1, 3, 4, 4});
  for (const at::Tensor& tensor :
       {base.transpose(0, 2), base.slice(2, 0, 4, 2), base[0][0].expand({5, 4}),
        image.contiguous(at::MemoryFormat::ChannelsLast), base.select(2, 1)}) {
    expect_error<c10::ValueError>([&] { return Value::from_tensor(tensor); },
                                  {"not contiguous", "copy=None", "contiguous()"});
    for (const Copy copy : {Copy::kIfNeeded, Copy::kAlways}) {
      const ValuePtr value = Value::from_tensor(tensor, copy);
      EXPECT_NE(value->data(), tensor.data_ptr());
      EXPECT_TRUE(at::equal(value->to_tensor(), tensor));
      EXPECT_TRUE(value->to_tensor().is_contiguous());
    }
  }
}

TEST_F(ValueTest, CopiesOnlyAsThePolicySays) {
  const at::Tensor tensor = at::arange(6, at::kFloat);
  EXPECT_EQ(Value::from_tensor(tensor, Copy::kIfNeeded)->data(), tensor.data_ptr());
  const ValuePtr copied = Value::from_tensor(tensor, Copy::kAlways);
  EXPECT_NE(copied->data(), tensor.data_ptr());
  EXPECT_TRUE(at::equal(copied->to_tensor(), tensor));
  EXPECT_EQ(copied->to_tensor(Copy::kIfNeeded).data_ptr(), copied->data());
  const at::Tensor again = copied->to_tensor(Copy::kAlways);
  EXPECT_NE(again.data_ptr(), copied->data());
  EXPECT_TRUE(at::equal(again, tensor));
  EXPECT_EQ(copy_policy(false), Copy::kNever);
  EXPECT_EQ(copy_policy(std::nullopt), Copy::kIfNeeded);
  EXPECT_EQ(copy_policy(true), Copy::kAlways);
}

TEST_F(ValueTest, ResolvesANegativeBitIntoTheCopy) {
  const at::Tensor tensor = at::arange(1, 5, at::kFloat);
  const at::Tensor negative = tensor._neg_view();
  for (const Copy copy : {Copy::kIfNeeded, Copy::kAlways}) {
    const at::Tensor back = Value::from_tensor(negative, copy)->to_tensor();
    EXPECT_FALSE(back.is_neg());
    EXPECT_NE(back.data_ptr(), tensor.data_ptr());
    EXPECT_TRUE(at::equal(back, at::neg(tensor)));
  }
}

TEST_F(ValueTest, MaterialisesALazyClone) {
  const at::Tensor tensor = at::ones({4});
  const at::Tensor clone = at::_lazy_clone(tensor);
  const ValuePtr value = Value::from_tensor(clone);
  value->to_tensor().fill_(7);
  EXPECT_EQ(clone.const_data_ptr(), value->data());
  EXPECT_EQ(clone[0].item<float>(), 7);
  EXPECT_EQ(tensor[0].item<float>(), 1);
}

TEST_F(ValueTest, MakesPlainTensors) {
  const at::Tensor tensor = Value::from_tensor(at::ones({2, 3}))->to_tensor();
  EXPECT_FALSE(tensor.requires_grad());
  EXPECT_TRUE(tensor.is_leaf());
  EXPECT_EQ(tensor.layout(), at::kStrided);
  EXPECT_EQ(tensor.storage_offset(), 0);
  EXPECT_TRUE(at::equal(tensor.add(1).sum(), at::scalar_tensor(12.F)));
}

}  // namespace
}  // namespace ortdl::test
