#pragma once

#include <ATen/dlpack.h>
#include <c10/core/ScalarType.h>
#include <c10/util/ArrayRef.h>
#include <c10/util/SmallVector.h>
#include <onnxruntime_c_api.h>

#include <cstdint>
#include <optional>
#include <span>

/// \file
/// One table of element types: PyTorch's, ONNX Runtime's, DLPack's and ONNX's name for each.
namespace ortdl {

// Newer than the oldest supported header; ONNX numbers these three the other way round.
inline constexpr auto kOrtUInt2 = static_cast<ONNXTensorElementDataType>(24);
inline constexpr auto kOrtInt2 = static_cast<ONNXTensorElementDataType>(25);
inline constexpr auto kOrtFloat8E8M0 = static_cast<ONNXTensorElementDataType>(26);

/// A type of tensor element that ONNX Runtime and this library both know.
struct ElementType {
  const char* name;               ///< as ONNX Runtime spells it inside `tensor(...)`
  ONNXTensorElementDataType ort;  ///< ONNX Runtime's enumerator
  int32_t onnx;                   ///< ONNX's TensorProto.DataType
  DLDataType dlpack;              ///< DLPack's type; `bits` is the width of one element
  /// PyTorch's dense type. Undefined for the packed types, but for float4e2m1, whose PyTorch type
  /// holds two elements.
  at::ScalarType scalar;

  /// More than one element in a byte.
  [[nodiscard]] constexpr bool packed() const noexcept { return dlpack.bits < 8; }
  /// How many elements one element of `scalar` holds: 2 for float4_e2m1fn_x2, else 1.
  [[nodiscard]] constexpr int64_t per_scalar() const noexcept {
    return scalar == at::ScalarType::Float4_e2m1fn_x2 ? 2 : 1;
  }
  /// Bytes that `count` elements take.
  [[nodiscard]] constexpr size_t bytes(int64_t count) const noexcept {
    return (static_cast<size_t>(count) * dlpack.bits + 7) / 8;
  }
};

/// Every supported type, in ONNX's order.
[[nodiscard]] std::span<const ElementType> element_types() noexcept;

/// The type that PyTorch calls `type`, or null.
[[nodiscard]] const ElementType* find_element_type(at::ScalarType type) noexcept;
/// The type that ONNX Runtime calls `type`, or null.
[[nodiscard]] const ElementType* find_element_type(ONNXTensorElementDataType type) noexcept;

/// The type that PyTorch calls `type`.
/// \throws c10::TypeError that names `type` and what to use instead.
[[nodiscard]] const ElementType& element_type(at::ScalarType type);
/// The type that ONNX Runtime calls `type`.
/// \throws c10::TypeError that names it.
[[nodiscard]] const ElementType& element_type(ONNXTensorElementDataType type);
/// `type` as onnxruntime spells it inside `tensor(...)`, for every type it has; else "unknown".
[[nodiscard]] const char* element_name(ONNXTensorElementDataType type) noexcept;

/// The shape, in elements of `type`, of a tensor of PyTorch's dtype whose shape is `sizes`.
/// \throws c10::ValueError for a 0-d one that holds more than one element.
[[nodiscard]] c10::SmallVector<int64_t, 5> logical_sizes(at::IntArrayRef sizes,
                                                         const ElementType& type);

/// The number of elements of a shape. \throws c10::ValueError for a negative size, or more elements
///   than memory can hold.
[[nodiscard]] int64_t checked_numel(at::IntArrayRef sizes);

/// The type with ONNX's number `onnx` (TensorProto.DataType).
/// \throws c10::TypeError that says the number.
[[nodiscard]] const ElementType& element_type_from_onnx(int64_t onnx);

}  // namespace ortdl
