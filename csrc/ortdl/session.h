#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <ortdl/feeds.h>
#include <ortdl/graph_shapes.h>
#include <ortdl/live.h>
#include <ortdl/node.h>
#include <ortdl/session_config.h>
#include <ortdl/value.h>

#include <optional>
#include <string>
#include <vector>

/// \file
/// An ONNX model that takes tensors and gives tensors.
namespace ortdl {

/// A loaded ONNX model, as C++, TorchScript (`torch.classes.ortdl.InferenceSession`) and Python
/// hold it. Immutable: any number of threads may run it at once, and no lock of this library is
/// held while ONNX Runtime works. Tensors that it gave outlive it.
class Session final : public torch::CustomClassHolder {
 public:
  /// Load the model that `config` describes, with options made from it.
  /// \throws OrtError if ONNX Runtime refuses the model.
  /// \throws c10::ValueError if a provider is not offered.
  explicit Session(const SessionConfig& config);
  /// As above, but with `options` (those that a caller of onnxruntime set up); `config` then
  /// describes them, for saving.
  Session(SessionConfig config, SessionOptionsHandle options);

  /// Run the model. `inputs` are its inputs in its order; the result is its outputs in its order.
  ///
  /// Contiguous inputs are read in place, others from a contiguous copy. Outputs own their memory,
  /// which is never that of an input.
  /// \throws c10::ValueError for a wrong number of inputs, rank, size or device.
  /// \throws c10::TypeError for a wrong dtype, or if an output is no tensor.
  /// \throws c10::BufferError for an input that has no memory to read, or requires grad while grad
  ///   mode is on.
  /// \throws OrtError if ONNX Runtime failed.
  [[nodiscard]] std::vector<at::Tensor> run(at::TensorList inputs) const;

  /// Run the model on complete `feeds` for the outputs with the indices `outputs` only.
  [[nodiscard]] std::vector<at::Tensor> run(const Feeds& feeds, at::ArrayRef<size_t> outputs) const;

  [[nodiscard]] const std::vector<Node>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<Node>& outputs() const noexcept { return outputs_; }
  /// The index of every output, for `run`.
  [[nodiscard]] at::ArrayRef<size_t> all_outputs() const noexcept { return all_outputs_; }
  [[nodiscard]] const SessionConfig& config() const noexcept { return config_; }
  /// The declared shapes, for callers that rely on them.
  [[nodiscard]] const GraphShapes& shapes() const noexcept { return shapes_; }

  /// The index of the input `name`. \throws c10::ValueError that lists the inputs.
  [[nodiscard]] size_t input_index(std::string_view name) const;
  /// The index of the output `name`. \throws c10::ValueError that lists the outputs.
  [[nodiscard]] size_t output_index(std::string_view name) const;

  /// Lets go of the model once the last strong reference is gone: a weak one keeps the object.
  void release_resources() override;

 private:
  void check_output(size_t index) const;

  std::optional<detail::Counted<detail::Kind::kSession>> counted_;
  SessionConfig config_;
  SessionHandle handle_;
  std::vector<Node> inputs_;
  std::vector<Node> outputs_;
  GraphShapes shapes_;
  std::vector<const char*> input_names_;  // into inputs_
  std::vector<size_t> all_outputs_;
};

using SessionPtr = c10::intrusive_ptr<Session>;

}  // namespace ortdl
