#include <ATen/DLConvertor.h>
#include <ortdl/element_type.h>

#include <algorithm>
#include <array>
#include <set>

#include "support.h"

namespace ortdl::test {
namespace {

using enum at::ScalarType;

class ElementTypeTest : public CountedTest {};

struct Expected {
  const char* name;
  int ort;
  int32_t onnx;
  at::ScalarType scalar;
  int bits;
};

// What ONNX, ONNX Runtime and PyTorch publish, written down a second time.
constexpr std::array kExpected{
    Expected{"float", 1, 1, Float, 32},
    Expected{"uint8", 2, 2, Byte, 8},
    Expected{"int8", 3, 3, Char, 8},
    Expected{"uint16", 4, 4, UInt16, 16},
    Expected{"int16", 5, 5, Short, 16},
    Expected{"int32", 6, 6, Int, 32},
    Expected{"int64", 7, 7, Long, 64},
    Expected{"bool", 9, 9, Bool, 8},
    Expected{"float16", 10, 10, Half, 16},
    Expected{"double", 11, 11, Double, 64},
    Expected{"uint32", 12, 12, UInt32, 32},
    Expected{"uint64", 13, 13, UInt64, 64},
    Expected{"bfloat16", 16, 16, BFloat16, 16},
    Expected{"float8e4m3fn", 17, 17, Float8_e4m3fn, 8},
    Expected{"float8e4m3fnuz", 18, 18, Float8_e4m3fnuz, 8},
    Expected{"float8e5m2", 19, 19, Float8_e5m2, 8},
    Expected{"float8e5m2fnuz", 20, 20, Float8_e5m2fnuz, 8},
    Expected{"uint4", 21, 21, Undefined, 4},
    Expected{"int4", 22, 22, Undefined, 4},
    Expected{"float4e2m1", 23, 23, Float4_e2m1fn_x2, 4},
    Expected{"float8e8m0", 26, 24, Float8_e8m0fnu, 8},
    Expected{"uint2", 24, 25, Undefined, 2},
    Expected{"int2", 25, 26, Undefined, 2},
};

TEST_F(ElementTypeTest, HasEveryNumberRight) {
  EXPECT_EQ(element_types().size(), kExpected.size());
  for (const Expected& expected : kExpected) {
    const ElementType& type = element_type_from_onnx(expected.onnx);
    EXPECT_STREQ(type.name, expected.name);
    EXPECT_EQ(static_cast<int>(type.ort), expected.ort) << type.name;
    EXPECT_EQ(type.scalar, expected.scalar) << type.name;
    EXPECT_EQ(type.dlpack.bits, expected.bits) << type.name;
    EXPECT_EQ(type.dlpack.lanes, 1) << type.name;
    EXPECT_EQ(type.packed(), expected.bits < 8) << type.name;
    EXPECT_EQ(&element_type(type.ort), &type);
    EXPECT_EQ(find_element_type(type.ort), &type);
    if (expected.scalar != Undefined) {
      EXPECT_EQ(&element_type(type.scalar), &type);
      EXPECT_EQ(find_element_type(type.scalar), &type);
    }
  }
}

TEST_F(ElementTypeTest, CountsEighteenAlignedAndFivePackedTypes) {
  EXPECT_EQ(std::ranges::count_if(element_types(), &ElementType::packed), 5);
  EXPECT_EQ(element_types().size(), 18U + 5U);
}

TEST_F(ElementTypeTest, AgreesWithPyTorchOnWidths) {
  for (const ElementType& type : element_types()) {
    if (type.scalar != Undefined) {
      EXPECT_EQ(type.bytes(type.per_scalar()), c10::elementSize(type.scalar)) << type.name;
    }
  }
}

TEST_F(ElementTypeTest, AgreesWithATensorsDLPackType) {
  for (const ElementType& type : element_types()) {
    if (type.scalar == Undefined || type.packed()) {
      continue;
    }
    const DLDataType theirs = at::getDLDataType(at::empty({1}, type.scalar));
    EXPECT_EQ(theirs.code, type.dlpack.code) << type.name;
    EXPECT_EQ(theirs.bits, type.dlpack.bits) << type.name;
    EXPECT_EQ(theirs.lanes, type.dlpack.lanes) << type.name;
  }
}

TEST_F(ElementTypeTest, RoundsPackedBytesUp) {
  const ElementType& int4 = element_type_from_onnx(22);
  const ElementType& int2 = element_type_from_onnx(26);
  EXPECT_EQ(int4.bytes(0), 0U);
  EXPECT_EQ(int4.bytes(1), 1U);
  EXPECT_EQ(int4.bytes(2), 1U);
  EXPECT_EQ(int4.bytes(3), 2U);
  EXPECT_EQ(int2.bytes(4), 1U);
  EXPECT_EQ(int2.bytes(5), 2U);
}

TEST_F(ElementTypeTest, RefusesEveryOtherDtypeByName) {
  int refused = 0;
  for (int number = 0; number < static_cast<int>(Undefined); ++number) {
    const auto type = static_cast<at::ScalarType>(number);
    if (find_element_type(type) == nullptr) {
      const std::string name(c10::getDtypeNames(type).first);
      expect_error<c10::TypeError>([type] { return &element_type(type); }, {"torch." + name});
      ++refused;
    }
  }
  EXPECT_EQ(refused, static_cast<int>(Undefined) - 19);
  EXPECT_EQ(find_element_type(Undefined), nullptr);
}

TEST_F(ElementTypeTest, SaysTheWayOut) {
  const auto refuse = [](at::ScalarType type) { return [type] { return &element_type(type); }; };
  expect_error<c10::TypeError>(refuse(ComplexFloat), {"complex64", "torch.view_as_real"});
  expect_error<c10::TypeError>(refuse(ComplexHalf), {"complex32", "torch.view_as_real"});
  expect_error<c10::TypeError>(refuse(QInt8), {"qint8", "int_repr()", "dequantize()"});
  expect_error<c10::TypeError>(refuse(Int4), {"torch.int4", "from_packed"});
  expect_error<c10::TypeError>(refuse(UInt2), {"torch.uint2", "from_packed"});
  expect_error<c10::TypeError>(refuse(UInt7), {"torch.uint7", "torch.uint8"});
  expect_error<c10::TypeError>(refuse(Bits4x2), {"bits4x2", "torch.uint8"});
}

TEST_F(ElementTypeTest, RefusesUnknownRuntimeTypes) {
  for (const int number : {0, 8, 14, 15, 27, 31}) {
    const auto type = static_cast<ONNXTensorElementDataType>(number);
    EXPECT_EQ(find_element_type(type), nullptr) << number;
    expect_error<c10::TypeError>([type] { return &element_type(type); },
                                 {c10::str("(", number, ")")});
  }
  expect_error<c10::TypeError>([] { return &element_type(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING); },
                               {"element type string"});
  expect_error<c10::TypeError>(
      [] { return &element_type(ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128); }, {"complex128"});
}

TEST_F(ElementTypeTest, RefusesUnknownOnnxNumbers) {
  for (const int64_t number : {int64_t{-1}, int64_t{0}, int64_t{8}, int64_t{27}, INT64_MAX}) {
    expect_error<c10::TypeError>([number] { return &element_type_from_onnx(number); },
                                 {"ONNX's number " + std::to_string(number), "TensorProto"});
  }
}

}  // namespace
}  // namespace ortdl::test
