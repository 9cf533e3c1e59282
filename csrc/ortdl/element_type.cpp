#include <c10/util/Exception.h>
#include <ortdl/element_type.h>

#include <algorithm>
#include <array>

namespace ortdl {
namespace {

using enum at::ScalarType;

constexpr DLDataType dl(int code, int bits) noexcept {
  return {static_cast<uint8_t>(code), static_cast<uint8_t>(bits), 1};
}

constexpr std::array table{
    ElementType{"float", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, 1, dl(kDLFloat, 32), Float},
    ElementType{"uint8", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT8, 2, dl(kDLUInt, 8), Byte},
    ElementType{"int8", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT8, 3, dl(kDLInt, 8), Char},
    ElementType{"uint16", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT16, 4, dl(kDLUInt, 16), UInt16},
    ElementType{"int16", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT16, 5, dl(kDLInt, 16), Short},
    ElementType{"int32", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32, 6, dl(kDLInt, 32), Int},
    ElementType{"int64", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64, 7, dl(kDLInt, 64), Long},
    ElementType{"bool", ONNX_TENSOR_ELEMENT_DATA_TYPE_BOOL, 9, dl(kDLBool, 8), Bool},
    ElementType{"float16", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT16, 10, dl(kDLFloat, 16), Half},
    ElementType{"double", ONNX_TENSOR_ELEMENT_DATA_TYPE_DOUBLE, 11, dl(kDLFloat, 64), Double},
    ElementType{"uint32", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT32, 12, dl(kDLUInt, 32), UInt32},
    ElementType{"uint64", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT64, 13, dl(kDLUInt, 64), UInt64},
    ElementType{"bfloat16", ONNX_TENSOR_ELEMENT_DATA_TYPE_BFLOAT16, 16, dl(kDLBfloat, 16),
                BFloat16},
    ElementType{"float8e4m3fn", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FN, 17,
                dl(kDLFloat8_e4m3fn, 8), Float8_e4m3fn},
    ElementType{"float8e4m3fnuz", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E4M3FNUZ, 18,
                dl(kDLFloat8_e4m3fnuz, 8), Float8_e4m3fnuz},
    ElementType{"float8e5m2", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2, 19, dl(kDLFloat8_e5m2, 8),
                Float8_e5m2},
    ElementType{"float8e5m2fnuz", ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT8E5M2FNUZ, 20,
                dl(kDLFloat8_e5m2fnuz, 8), Float8_e5m2fnuz},
    ElementType{"uint4", ONNX_TENSOR_ELEMENT_DATA_TYPE_UINT4, 21, dl(kDLUInt, 4), Undefined},
    ElementType{"int4", ONNX_TENSOR_ELEMENT_DATA_TYPE_INT4, 22, dl(kDLInt, 4), Undefined},
    // ONNX Runtime's own enumerator is newer than the oldest supported header.
    ElementType{"float4e2m1", static_cast<ONNXTensorElementDataType>(23), 23,
                dl(kDLFloat4_e2m1fn, 4), Float4_e2m1fn_x2},
    ElementType{"float8e8m0", kOrtFloat8E8M0, 24, dl(kDLFloat8_e8m0fnu, 8), Float8_e8m0fnu},
    ElementType{"uint2", kOrtUInt2, 25, dl(kDLUInt, 2), Undefined},
    ElementType{"int2", kOrtInt2, 26, dl(kDLInt, 2), Undefined},
};

constexpr size_t kScalarTypes = static_cast<size_t>(at::ScalarType::NumOptions);

constexpr auto by_scalar = [] {
  std::array<const ElementType*, kScalarTypes> index{};
  for (const ElementType& type : table) {
    if (type.scalar != Undefined) {
      index.at(static_cast<size_t>(type.scalar)) = &type;
    }
  }
  return index;
}();

constexpr auto by_ort = [] {
  std::array<const ElementType*, 27> index{};
  for (const ElementType& type : table) {
    index.at(static_cast<size_t>(type.ort)) = &type;
  }
  return index;
}();

std::string_view dtype_name(at::ScalarType type) {
  return type == Undefined ? "undefined" : c10::getDtypeNames(type).first;
}

const char* way_out(at::ScalarType type) noexcept {
  if (at::isComplexType(type)) {
    return "convert it with torch.view_as_real(tensor) first";
  }
  if (at::isQIntType(type)) {
    return "use tensor.int_repr() or tensor.dequantize()";
  }
  if (type == UInt2 || type == UInt4 || type == Int2 || type == Int4) {
    return "PyTorch keeps one such element per byte; pack them and use "
           "OrtValue.from_packed(bytes, element_type, shape)";
  }
  return "convert the tensor to a supported dtype, or view its bytes as torch.uint8";
}

}  // namespace

std::span<const ElementType> element_types() noexcept { return table; }

const ElementType* find_element_type(at::ScalarType type) noexcept {
  const auto index = static_cast<size_t>(type);
  return index < by_scalar.size() ? by_scalar[index] : nullptr;
}

const ElementType* find_element_type(ONNXTensorElementDataType type) noexcept {
  const auto index = static_cast<size_t>(type);
  return index < by_ort.size() ? by_ort[index] : nullptr;
}

const ElementType& element_type(at::ScalarType type) {
  const ElementType* found = find_element_type(type);
  TORCH_CHECK_TYPE(found != nullptr,
                   "ONNX Runtime has no element type for a tensor of dtype torch.",
                   dtype_name(type), ": ", way_out(type));
  return *found;
}

const ElementType& element_type(ONNXTensorElementDataType type) {
  const ElementType* found = find_element_type(type);
  TORCH_CHECK_TYPE(found != nullptr, "PyTorch has no tensor of ONNX Runtime's element type ",
                   element_name(type), " (", static_cast<int>(type),
                   "): read such a value with onnxruntime itself");
  return *found;
}

const char* element_name(ONNXTensorElementDataType type) noexcept {
  if (const ElementType* known = find_element_type(type)) {
    return known->name;
  }
  switch (type) {
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING:
      return "string";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX64:
      return "complex64";
    case ONNX_TENSOR_ELEMENT_DATA_TYPE_COMPLEX128:
      return "complex128";
    default:
      return "unknown";
  }
}

c10::SmallVector<int64_t, 5> logical_sizes(at::IntArrayRef sizes, const ElementType& type) {
  c10::SmallVector<int64_t, 5> logical(sizes.begin(), sizes.end());
  if (type.per_scalar() != 1) {
    TORCH_CHECK_VALUE(!logical.empty(), "a 0-d tensor of dtype torch.", dtype_name(type.scalar),
                      " holds ", type.per_scalar(), " ", type.name,
                      " elements, which no 0-d value can: give it a dimension first");
    logical.back() *= type.per_scalar();
  }
  return logical;
}

int64_t checked_numel(at::IntArrayRef sizes) {
  // Beyond it offsets in bits overflow; no machine has as much memory.
  constexpr int64_t most = int64_t{1} << 56;
  int64_t count = 1;
  bool fits = true;
  bool empty = false;
  for (const int64_t size : sizes) {
    TORCH_CHECK_VALUE(size >= 0, "a shape with a negative size was given: ", sizes);
    // A size of zero makes the tensor empty, whatever the others are.
    empty = empty || size == 0;
    fits = fits && !__builtin_mul_overflow(count, std::max<int64_t>(size, 1), &count);
  }
  TORCH_CHECK_VALUE(fits && count <= most, "a tensor of shape ", sizes,
                    " has more elements than memory can hold");
  return empty ? 0 : count;
}

const ElementType& element_type_from_onnx(int64_t onnx) {
  const auto* found = std::ranges::find(table, onnx, &ElementType::onnx);
  TORCH_CHECK_TYPE(found != table.end(), "no supported element type has ONNX's number ", onnx,
                   " (TensorProto.DataType)");
  return *found;
}

}  // namespace ortdl
