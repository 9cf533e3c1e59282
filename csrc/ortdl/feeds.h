#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <ortdl/node.h>
#include <ortdl/value.h>

#include <cstddef>
#include <span>
#include <vector>

/// \file
/// A model's inputs for one run.
namespace ortdl {

/// Collects the inputs of one run, checked against what the model declares.
///
/// Values of tensors made here own nothing: the storages beside them do, which is cheaper.
class Feeds {
 public:
  /// \param inputs The model's inputs; must outlive this object.
  /// \param move Whether inputs on other devices are copied to where the session wants them.
  explicit Feeds(const std::vector<Node>& inputs, bool move = false);

  /// Give `tensor` as the input number `index`. A contiguous one is read in place.
  /// \throws c10::TypeError for a wrong dtype, c10::ValueError for a wrong rank, size or device, or
  ///   an input given before, c10::BufferError if the tensor has no memory to read or requires
  ///   grad while grad mode is on.
  void set(size_t index, const at::Tensor& tensor);
  /// Give `value` as the input number `index`; nothing for an optional one. \throws as above.
  void set(size_t index, ValuePtr value);

  /// Forget what was given as the input number `index`.
  void reset(size_t index) noexcept;

  /// \throws c10::ValueError that names the first input that was not given.
  void require_all() const;

  /// Whether `tensor` would be read in place as the input number `index`, without any copy.
  [[nodiscard]] bool in_place(size_t index, const at::Tensor& tensor) const;
  /// The same of a value.
  [[nodiscard]] bool in_place(size_t index, const Value& value) const;

  /// Mark the storages of the tensors among them as not resizable, as `Value::from_tensor` does:
  /// for a run during which their owner may do what he likes.
  void pin() const;

  /// Let `reader`, the stream that reads the inputs, wait for the streams of the values among them;
  /// tensors are ready for the stream that is current.
  void order_before(c10::Stream reader) const;

  /// The inputs as ONNX Runtime takes them; null where an optional one has nothing in it.
  [[nodiscard]] const ::OrtValue* const* values() const noexcept { return values_.data(); }
  /// Whether some of the `bytes` at `output` are memory of an input: a graph output that is a graph
  /// input comes back so.
  [[nodiscard]] bool overlaps(const void* output, size_t bytes = 1) const noexcept;
  /// The value given as the input number `index`; null if it was a tensor or nothing.
  [[nodiscard]] const ValuePtr& value(size_t index) const { return slots_[index].value; }

 private:
  // What keeps one input's memory, and where that is.
  struct Slot {
    ValueHandle handle;
    c10::Storage storage;
    ValuePtr value;
    std::span<const std::byte> span;
  };

  void check_free(size_t index) const;
  [[nodiscard]] bool must_move(const Node& node, at::Device device) const;
  void check_shape(const Node& node, at::IntArrayRef sizes) const;
  [[nodiscard]] std::string expected() const;

  const std::vector<Node>* inputs_;
  bool move_;
  c10::SmallVector<const ::OrtValue*, 8> values_;
  c10::SmallVector<Slot, 8> slots_;
};

}  // namespace ortdl
