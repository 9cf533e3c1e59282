#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace fake_gpu {

/// The operators that the provider takes, on float32 only.
enum class Op { Identity, Add, Mul, MatMul };

using Shape = std::vector<int64_t>;

/// The operator that ONNX calls `name`, if it is one of ours.
std::optional<Op> op_named(std::string_view name) noexcept;

/// What ONNX calls `op`.
const char* name_of(Op op) noexcept;

/// The number of elements of a tensor of `shape`.
int64_t element_count(const Shape& shape) noexcept;

/// The shape of the result for inputs of these shapes.
/// \throws std::runtime_error if `op` does not take them.
Shape result_shape(Op op, std::span<const Shape> inputs);

/// A contiguous tensor that a kernel reads.
struct Operand {
  const float* data = nullptr;
  Shape shape;
};

/// Write the result of `op`, of shape `result_shape(...)`, to `result`.
void compute(Op op, std::span<const Operand> inputs, const Shape& shape, float* result);

}  // namespace fake_gpu
