#include "kernels.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>

namespace fake_gpu {
namespace {

constexpr std::array<std::pair<Op, const char*>, 4> kNames = {
    {{Op::Identity, "Identity"}, {Op::Add, "Add"}, {Op::Mul, "Mul"}, {Op::MatMul, "MatMul"}}};

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const int64_t size : shape) {
    text += (text.empty() ? "" : ", ") + std::to_string(size);
  }
  return "(" + text + ")";
}

/// NumPy's rule.
Shape broadcast(const Shape& a, const Shape& b) {
  Shape result = a.size() < b.size() ? b : a;
  const Shape& shorter = a.size() < b.size() ? a : b;
  const size_t offset = result.size() - shorter.size();
  for (size_t i = 0; i < shorter.size(); ++i) {
    int64_t& size = result[offset + i];
    if (size != shorter[i] && size != 1 && shorter[i] != 1) {
      throw std::runtime_error("shapes " + shape_text(a) + " and " + shape_text(b) +
                               " cannot be broadcast");
    }
    size = size == 1 ? shorter[i] : size;
  }
  return result;
}

/// Where the operand's element for the result's element number `index` is.
int64_t broadcast_index(const Shape& operand, const Shape& result, int64_t index) {
  int64_t offset = 0;
  int64_t stride = 1;
  for (size_t back = 1; back <= operand.size(); ++back) {
    const int64_t extent = result[result.size() - back];
    const int64_t size = operand[operand.size() - back];
    offset += size == 1 ? 0 : index % extent * stride;
    stride *= size;
    index /= extent;
  }
  return offset;
}

template <class Operation>
void elementwise(std::span<const Operand> inputs, const Shape& shape, float* result,
                 Operation operation) {
  const int64_t count = element_count(shape);
  for (int64_t i = 0; i < count; ++i) {
    result[i] = operation(inputs[0].data[broadcast_index(inputs[0].shape, shape, i)],
                          inputs[1].data[broadcast_index(inputs[1].shape, shape, i)]);
  }
}

void multiply_matrices(const Operand& a, const Operand& b, float* result) {
  const int64_t inner = b.shape[0];
  const int64_t columns = b.shape[1];
  const int64_t rows = element_count(Shape(a.shape.begin(), a.shape.end() - 1));
  for (int64_t row = 0; row < rows; ++row) {
    for (int64_t column = 0; column < columns; ++column) {
      float sum = 0;
      for (int64_t k = 0; k < inner; ++k) {
        sum += a.data[row * inner + k] * b.data[k * columns + column];
      }
      result[row * columns + column] = sum;
    }
  }
}

}  // namespace

std::optional<Op> op_named(std::string_view name) noexcept {
  const auto* found = std::ranges::find(
      kNames, name, [](const auto& entry) { return std::string_view(entry.second); });
  return found == kNames.end() ? std::nullopt : std::optional(found->first);
}

const char* name_of(Op op) noexcept {
  return std::ranges::find(kNames, op, &std::pair<Op, const char*>::first)->second;
}

int64_t element_count(const Shape& shape) noexcept {
  return std::accumulate(shape.begin(), shape.end(), int64_t{1}, std::multiplies<>());
}

Shape result_shape(Op op, std::span<const Shape> inputs) {
  if (op == Op::Identity) {
    return inputs[0];
  }
  if (op != Op::MatMul) {
    return broadcast(inputs[0], inputs[1]);
  }
  const Shape& a = inputs[0];
  const Shape& b = inputs[1];
  if (a.empty() || b.size() != 2 || a.back() != b[0]) {
    throw std::runtime_error("the fake MatMul takes (..., k) and (k, n), not " + shape_text(a) +
                             " and " + shape_text(b));
  }
  Shape result = a;
  result.back() = b[1];
  return result;
}

void compute(Op op, std::span<const Operand> inputs, const Shape& shape, float* result) {
  switch (op) {
    case Op::Identity:
      std::copy_n(inputs[0].data, element_count(shape), result);
      break;
    case Op::Add:
      elementwise(inputs, shape, result, std::plus<>());
      break;
    case Op::Mul:
      elementwise(inputs, shape, result, std::multiplies<>());
      break;
    case Op::MatMul:
      multiply_matrices(inputs[0], inputs[1], result);
      break;
  }
}

}  // namespace fake_gpu
