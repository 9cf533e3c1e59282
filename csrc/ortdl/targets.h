#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <ortdl/feeds.h>
#include <ortdl/node.h>
#include <ortdl/value.h>

#include <vector>

/// \file
/// Tensors into which a run writes a model's outputs.
namespace ortdl {

/// Says to autograd, when it goes, that values were written to. Null ones are left out.
class Written {
 public:
  /// \param values Must outlive this object.
  explicit Written(at::ArrayRef<ValuePtr> values) noexcept : values_(values) {}
  Written(const Written&) = delete;
  Written(Written&&) = delete;
  Written& operator=(const Written&) = delete;
  Written& operator=(Written&&) = delete;
  ~Written() {
    for (const ValuePtr& value : values_) {
      if (value.defined()) {
        value->bump_version();
      }
    }
  }

 private:
  at::ArrayRef<ValuePtr> values_;
};

/// Collects them, checked against what the model declares and PyTorch's rules for writing in place.
class Targets {
 public:
  /// \param outputs The model's outputs; must outlive this object.
  explicit Targets(const std::vector<Node>& outputs) : outputs_(&outputs) {}

  /// Let the output number `index` be written into `tensor`, whose memory is kept.
  /// \throws c10::TypeError for a wrong dtype, or an output that no tensor can be.
  /// \throws c10::ValueError for a wrong rank, size or device, a tensor that is not contiguous, or
  ///   an output given before.
  /// \throws c10::BufferError if the tensor has no memory to write to, or requires grad while grad
  ///   mode is on; c10::Error for an inference tensor outside of inference mode.
  void set(size_t index, const at::Tensor& tensor);
  /// The same of `value`. \throws as above, c10::BufferError if it is read-only.
  void set(size_t index, ValuePtr value);

  /// \throws c10::ValueError if two of them share memory, or one and an input of `feeds`.
  void require_apart(const Feeds& feeds) const;

  /// The indices of the outputs, in the order in which they were given.
  [[nodiscard]] at::ArrayRef<size_t> indices() const noexcept { return indices_; }
  /// Where each of them is written.
  [[nodiscard]] at::ArrayRef<ValuePtr> values() const noexcept { return values_; }

  /// \throws as `set` does for a tensor that may not be written to in place.
  static void require_writable(const Node& output, const at::Tensor& tensor);

 private:
  [[nodiscard]] std::string expected() const;

  const std::vector<Node>* outputs_;
  c10::SmallVector<size_t, 8> indices_;
  c10::SmallVector<ValuePtr, 8> values_;
};

}  // namespace ortdl
