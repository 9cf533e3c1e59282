#include <ortdl/apart.h>
#include <ortdl/feeds.h>
#include <ortdl/grad.h>
#include <ortdl/memory.h>
#include <ortdl/shareable.h>
#include <ortdl/type_string.h>
#include <ortdl/wording.h>

#include <algorithm>

namespace ortdl {

Feeds::Feeds(const std::vector<Node>& inputs, bool move)
    : inputs_(&inputs), move_(move), values_(inputs.size(), nullptr) {
  slots_.resize(inputs.size());
}

void Feeds::set(size_t index, const at::Tensor& tensor) {
  if (set_in_place(index, tensor)) [[likely]] {
    return;
  }
  const Node& node = (*inputs_)[index];
  check_free(index);
  check_dtype(node, tensor);
  at::Tensor copied;
  at::Tensor moved;
  const at::Tensor* dense = &tensor;
  try {
    dense = &shareable(tensor, Copy::kIfNeeded, copied);
    if (must_move(node, dense->device())) {
      moved = dense->to(node.device);
      dense = &moved;
    }
  } catch (c10::Error& error) {
    error.add_context("The tensor was given for the input '" + node.name + "'. " + expected());
    throw;
  }
  lend(index, *dense);
}

bool Feeds::set_in_place(size_t index, const at::Tensor& tensor) {
  const Node& node = (*inputs_)[index];
  if (is_as_before(index, tensor)) [[likely]] {
    check_free(index);
    lend_memory(index, tensor);
    return true;
  }
  if (!detail::is_shareable(tensor) || tensor.device() != node.device) {
    return false;
  }
  check_free(index);
  check_dtype(node, tensor);
  lend(index, tensor);
  // Of other elements PyTorch and ONNX Runtime have different sizes.
  if (node.element->per_scalar() == 1) [[likely]] {
    slots_[index].keys = tensor.key_set();
  }
  return true;
}

bool Feeds::is_as_before(size_t index, const at::Tensor& tensor) const {
  const Slot& slot = slots_[index];
  const Node& node = (*inputs_)[index];
  if (slot.handle == nullptr || slot.keys != tensor.key_set() ||
      tensor.scalar_type() != node.element->scalar || tensor.sizes() != slot.sizes ||
      !tensor.is_contiguous() || tensor.device() != node.device || needs_grad(tensor)) {
    return false;
  }
  return detail::has_memory(tensor);
}

void Feeds::lend(size_t index, const at::Tensor& dense) {
  const Node& node = (*inputs_)[index];
  if (node.element->per_scalar() == 1) [[likely]] {
    note_sizes(index, dense.sizes());
  } else {
    note_sizes(index, logical_sizes(dense.sizes(), *node.element));
  }
  lend_memory(index, dense);
}

void Feeds::lend_memory(size_t index, const at::Tensor& dense) {
  Slot& slot = slots_[index];
  // ONNX Runtime takes a pointer to change, but never changes an input.
  void* data = const_cast<void*>(dense.const_data_ptr());
  if (slot.handle == nullptr || slot.data != data) {
    renewed_ = true;
    slot.bytes = dense.nbytes();
    ::OrtValue* value = nullptr;
    check_status(api().CreateTensorWithDataAsOrtValue(memory_info(dense.device()), data, slot.bytes,
                                                      slot.sizes.data(), slot.sizes.size(),
                                                      (*inputs_)[index].element->ort, &value));
    slot.handle.reset(value);
    slot.data = data;
  }
  slot.storage = dense.storage();
  slot.span = {static_cast<const std::byte*>(data), slot.bytes};
  values_[index] = slot.handle.get();
}

void Feeds::set(size_t index, ValuePtr value) {
  const Node& node = (*inputs_)[index];
  check_free(index);
  const std::string given = value->type_string();
  const std::string_view inner = inner_type(node.type, "optional");
  const bool nothing = !inner.empty() && !value->has_value();
  TORCH_CHECK_TYPE(given == node.type || given == inner || nothing, "the input '", node.name,
                   "' must be ", with_article(node.type), ", but an OrtValue of ", given,
                   " was given. ", expected());
  if (value->is_tensor()) {
    note_sizes(index, value->sizes());
  }
  if (tensor_element(given) != nullptr) {
    if (must_move(node, value->device())) {
      value = value->to(node.device);
    }
    slots_[index].span = {static_cast<const std::byte*>(value->data()), value->nbytes()};
  }
  renewed_ = true;
  values_[index] = nothing ? nullptr : value->handle();
  slots_[index].value = std::move(value);
}

void Feeds::require_all() const {
  for (size_t i = 0; i < values_.size(); ++i) {
    // An optional input with nothing in it has no OrtValue.
    const bool given = values_[i] != nullptr || slots_[i].value.defined();
    TORCH_CHECK_VALUE(given, "the model takes ", counted(values_.size(), "input"),
                      ", but the input '", (*inputs_)[i].name, "' was not given. ", expected());
  }
}

void Feeds::reset(size_t index) noexcept {
  Slot& slot = slots_[index];
  values_[index] = nullptr;
  slot.storage = {};
  slot.value.reset();
  slot.span = {};
}

void Feeds::clear() noexcept {
  for (size_t i = 0; i < slots_.size(); ++i) {
    reset(i);
  }
}

bool Feeds::overlaps(const void* output, size_t bytes) const noexcept {
  const std::span memory(static_cast<const std::byte*>(output), bytes);
  return std::ranges::any_of(slots_,
                             [memory](const Slot& slot) { return overlap(slot.span, memory); });
}

bool Feeds::in_place(size_t index, const Value& value) const {
  return !value.is_tensor() || value.device() == (*inputs_)[index].device;
}

void Feeds::pin() const {
  for (const Slot& slot : slots_) {
    if (slot.storage) {
      slot.storage.unsafeGetStorageImpl()->set_resizable(false);
    }
  }
}

void Feeds::order_before(c10::Stream reader) const {
  for (const Slot& slot : slots_) {
    if (slot.value.defined()) {
      slot.value->order_before(reader);
    }
  }
}

bool Feeds::must_move(const Node& node, at::Device device) const {
  TORCH_CHECK_VALUE(device == node.device || move_, "the input '", node.name, "' must be on ",
                    node.device, ", where the session works, but one on ", device,
                    " was given: move it with tensor.to('", node.device,
                    "'), or make the session with move_inputs=True. ", expected());
  if (device == node.device) [[likely]] {
    return false;
  }
  require_no_capture(device, node.device);
  return true;
}

void Feeds::check_free(size_t index) const {
  if (values_[index] == nullptr && !slots_[index].value.defined()) [[likely]] {
    return;
  }
  TORCH_CHECK_VALUE(false, "the input '", (*inputs_)[index].name, "' was given twice. ",
                    expected());
}

void Feeds::check_dtype(const Node& node, const at::Tensor& tensor) const {
  TORCH_CHECK_TYPE(tensor.defined(), "the input '", node.name, "' is an undefined tensor");
  TORCH_CHECK_TYPE(node.element != nullptr && node.element->scalar != at::ScalarType::Undefined,
                   "the input '", node.name, "' is ", with_article(node.type),
                   ", which no tensor can be: call the session itself, in eager code, with what "
                   "such an input takes (an OrtValue of that type; lists; None). ",
                   expected());
  TORCH_CHECK_TYPE(tensor.scalar_type() == node.element->scalar, "the input '", node.name,
                   "' must have dtype torch.", c10::getDtypeNames(node.element->scalar).first, " (",
                   node.type, "), but a tensor of dtype torch.",
                   c10::getDtypeNames(tensor.scalar_type()).first,
                   " was given: convert it with tensor.to(dtype). ", expected());
}

void Feeds::note_sizes(size_t index, at::IntArrayRef sizes) {
  Slot& slot = slots_[index];
  if (slot.sized && sizes == slot.sizes) [[likely]] {
    return;
  }
  check_shape((*inputs_)[index], sizes);
  slot.handle.reset();
  resized_ = true;
  slot.sizes.assign(sizes.begin(), sizes.end());
  slot.sized = true;
}

void Feeds::check_shape(const Node& node, at::IntArrayRef sizes) const {
  // ONNX Runtime reports rank 0 for a scalar and for an open rank alike, and checks it itself.
  const size_t rank = node.shape.size();
  if (rank == 0) {
    return;
  }
  TORCH_CHECK_VALUE(sizes.size() == rank, "the input '", node.name, "' must have ",
                    counted(rank, "dimension"), ", but one of shape ", sizes, " was given. ",
                    expected());
  for (size_t i = 0; i < rank; ++i) {
    TORCH_CHECK_VALUE(node.shape[i] < 0 || node.shape[i] == sizes[i], "the input '", node.name,
                      "' must have size ", node.shape[i], " in dimension ", i,
                      ", but one of shape ", sizes, " was given. ", expected());
  }
}

std::string Feeds::expected() const { return expected_inputs(*inputs_); }

}  // namespace ortdl
