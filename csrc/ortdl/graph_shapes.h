#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/node.h>

#include <cstddef>
#include <string>
#include <vector>

/// \file
/// The shapes that a model declares, for callers that must know them before it runs.
namespace ortdl {

/// What a compiler may rely on: how the shapes of a model's outputs follow from its inputs.
///
/// A dimension's name stands for one size in a run, wherever it appears.
class GraphShapes {
 public:
  GraphShapes(const std::vector<Node>& inputs, const std::vector<Node>& outputs);

  /// Hold the tensors of one run against the declaration.
  ///
  /// ONNX Runtime reports rank 0 for a scalar and for an open rank alike: an output must then be
  /// 0-d, and an input may be anything.
  /// \throws c10::ValueError if inputs give one name two sizes.
  /// \throws c10::Error if an output has another shape than declared.
  void check(at::TensorList inputs, at::TensorList outputs) const;

  /// Whether the shape of the output number `output` follows from those of the inputs.
  [[nodiscard]] bool determines(size_t output) const;

  /// The declaration as JSON: {"inputs": [node, ...], "outputs": [node, ...]}. A node has "name",
  /// "type" (as onnxruntime spells it), "dtype" (PyTorch's name, or null), "device" (where the
  /// session has it) and "shape" (for each dimension its size in elements, its name or null).
  [[nodiscard]] const std::string& json() const noexcept { return json_; }

 private:
  // A dimension is its size, or where its name stands among the names, or neither.
  struct Dimension {
    int64_t size;
    int64_t name;
  };
  struct Declared {
    std::string text;
    int64_t per_scalar;
    std::vector<Dimension> shape;
  };
  // The size that each name stands for in one run; -1 while unknown.
  using Bound = std::vector<int64_t>;

  std::vector<Declared> declared(const std::vector<Node>& nodes);
  static bool matches(const Declared& node, at::IntArrayRef sizes, Bound& bound);

  std::vector<std::string> names_;
  std::vector<Declared> inputs_;
  std::vector<Declared> outputs_;
  std::string json_;
};

}  // namespace ortdl
