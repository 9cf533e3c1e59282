#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>
#include <ortdl/node.h>
#include <ortdl/value.h>

#include <cstddef>
#include <optional>
#include <span>
#include <utility>
#include <vector>

/// \file
/// A model's inputs for one run.
namespace ortdl {

/// Collects the inputs of one run, checked against what the model declares.
///
/// Values of tensors made here own nothing: the storages beside them do, which is cheaper. They are
/// kept from run to run, for tensors of the same memory and sizes.
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
  /// The same, if `tensor` can be read in place without any copy; false, and nothing was done, if
  /// not. \throws as above.
  [[nodiscard]] bool set_in_place(size_t index, const at::Tensor& tensor);
  /// Give `value` as the input number `index`; nothing for an optional one. \throws as above.
  void set(size_t index, ValuePtr value);

  /// How many inputs there are; none once these feeds were moved away.
  [[nodiscard]] size_t size() const noexcept { return slots_.size(); }

  /// Forget what was given as the input number `index`.
  void reset(size_t index) noexcept;
  /// Forget all that was given, for another run.
  void clear() noexcept;
  /// Whether an input got other sizes, since this was last asked.
  [[nodiscard]] bool take_resized() noexcept { return std::exchange(resized_, false); }
  /// Whether an input got another OrtValue, since this was last asked.
  [[nodiscard]] bool take_renewed() noexcept { return std::exchange(renewed_, false); }

  /// \throws c10::ValueError that names the first input that was not given.
  void require_all() const;

  /// Whether `value` would be read in place as the input number `index`, without any copy.
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
    c10::Storage storage;
    ValuePtr value;
    std::span<const std::byte> span;
    // Kept from run to run: the last tensor's OrtValue, its memory, and the last sizes.
    ValueHandle handle;
    const void* data = nullptr;
    size_t bytes = 0;
    // Of the last one that was read in place; what no memory can be read of has others.
    std::optional<c10::DispatchKeySet> keys;
    c10::SmallVector<int64_t, 5> sizes;
    bool sized = false;
  };

  void check_free(size_t index) const;
  void check_dtype(const Node& node, const at::Tensor& tensor) const;
  // Whether `tensor` can be read in place since the last one could be, from which it differs in
  // nothing but its memory.
  [[nodiscard]] bool is_as_before(size_t index, const at::Tensor& tensor) const;
  void lend(size_t index, const at::Tensor& dense);
  void lend_memory(size_t index, const at::Tensor& dense);
  // Says what sizes the input number `index` has; if others than before, its OrtValue goes.
  void note_sizes(size_t index, at::IntArrayRef sizes);
  [[nodiscard]] bool must_move(const Node& node, at::Device device) const;
  void check_shape(const Node& node, at::IntArrayRef sizes) const;
  [[nodiscard]] std::string expected() const;

  const std::vector<Node>* inputs_;
  bool move_;
  bool resized_ = false;
  bool renewed_ = false;
  c10::SmallVector<const ::OrtValue*, 8> values_;
  c10::SmallVector<Slot, 8> slots_;
};

}  // namespace ortdl
