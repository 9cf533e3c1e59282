#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <ortdl/element_type.h>
#include <ortdl/runtime.h>

#include <cstdint>
#include <string>
#include <vector>

/// \file
/// What a model declares of its inputs and outputs.
namespace ortdl {

/// One input or output of a model.
struct Node {
  std::string name;
  std::string type;                       ///< as onnxruntime spells it, such as "tensor(float)"
  const ElementType* element = nullptr;   ///< null unless a tensor of a supported type
  std::vector<int64_t> shape;             ///< -1 where the model leaves a dimension open
  std::vector<std::string> symbols;       ///< the name of each open dimension, or ""
  at::Device device = at::kCPU;           ///< where the session wants it, or leaves it
  const OrtMemoryInfo* memory = nullptr;  ///< the same in ONNX Runtime's terms; the session's

  /// "name: tensor(float)[batch, 3]"
  [[nodiscard]] std::string describe() const;
};

/// "a: tensor(float)[n, 3], b: tensor(int64)[]", or "(none)".
[[nodiscard]] std::string describe(const std::vector<Node>& nodes);

/// What an error about inputs ends with: "The model's inputs are: ...".
[[nodiscard]] std::string expected_inputs(const std::vector<Node>& inputs);

/// The inputs that the model must be given, in its order.
[[nodiscard]] std::vector<Node> read_inputs(const OrtSession* session);
/// The outputs, in the model's order.
[[nodiscard]] std::vector<Node> read_outputs(const OrtSession* session);

}  // namespace ortdl
