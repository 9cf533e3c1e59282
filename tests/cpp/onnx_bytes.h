#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

/// \file
/// Small ONNX models, written byte by byte: the tests need no ONNX library.
namespace ortdl::test::onnx {

/// A size, or the name of an open dimension ("" leaves it nameless).
using Dimension = std::variant<int64_t, std::string>;
/// Without a value, the rank is open.
using Shape = std::optional<std::vector<Dimension>>;

inline constexpr int32_t kFloat = 1;
inline constexpr int32_t kInt64 = 7;
inline constexpr int32_t kString = 8;
inline constexpr int32_t kInt4 = 22;

/// The bytes of a TypeProto.
std::string tensor_type(int32_t element = kFloat, const Shape& shape = std::nullopt);
std::string sequence_type(const std::string& element);
std::string optional_type(const std::string& element);

/// A graph's input or output.
struct Info {
  std::string name;
  std::string type = tensor_type();
};

/// A node with integers as its attributes.
struct Operator {
  std::string type;
  std::vector<std::string> inputs;
  std::vector<std::string> outputs;
  std::vector<std::pair<std::string, int64_t>> attributes = {};
};

/// A weight, or another constant.
struct Initializer {
  std::string name;
  at::Tensor value;
  int32_t element = kFloat;
  std::string location = {};  ///< the file with its elements, if they are not in the model
};

/// The bytes of a ModelProto as a flat uint8 tensor: IR version 10, opset 21.
at::Tensor model(const std::vector<Operator>& operators, const std::vector<Info>& inputs,
                 const std::vector<Info>& outputs,
                 const std::vector<Initializer>& initializers = {});

/// c = a + b, of floats with the shape `shape`.
at::Tensor add(const Shape& shape = std::nullopt);
/// difference = left - right, of floats of any shape.
at::Tensor subtract();
/// y = `operation`(x).
at::Tensor unary(const std::string& operation, int32_t element = kFloat,
                 const Shape& shape = std::nullopt);
/// y = x + w, with the two elements of w in the file `location`.
at::Tensor external_weight(const std::string& location);
/// A graph without nodes, whose output is its input: no type needs a kernel for that.
at::Tensor pass_through(int32_t element = kFloat, const Shape& shape = std::nullopt);
/// y = Relu(x), and beside it "other": `operation`(x) of type `type`.
at::Tensor with_other(const Operator& operation, const std::string& type);

}  // namespace ortdl::test::onnx
