#include <c10/core/InferenceMode.h>
#include <ortdl/apart.h>
#include <ortdl/initializers.h>
#include <ortdl/shareable.h>
#include <ortdl/targets.h>
#include <ortdl/wording.h>

#include <algorithm>

namespace ortdl {
namespace {

// A value over the tensor's memory. Unlike `Value::from_tensor` it leaves the storage resizable.
ValuePtr borrow(const at::Tensor& tensor) {
  const ElementType& type = element_type(tensor.scalar_type());
  const auto sizes = logical_sizes(tensor.sizes(), type);
  const Layout layout{
      .type = &type, .data = tensor.mutable_data_ptr(), .device = tensor.device(), .sizes = sizes};
  return c10::make_intrusive<Value>(make_owning(tensor.storage(), layout, tensor.nbytes()), layout,
                                    StreamUse::on(tensor.device(), tensor.storage()),
                                    version_of(tensor));
}

}  // namespace

void Targets::require_writable(const Node& output, const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.defined(), "an undefined tensor was given for the output '", output.name,
                   "'");
  TORCH_CHECK_TYPE(output.element != nullptr && output.element->scalar == tensor.scalar_type(),
                   "the output '", output.name, "' is ", with_article(output.type),
                   ", which cannot be written into a tensor of dtype torch.",
                   c10::getDtypeNames(tensor.scalar_type()).first);
  try {
    TORCH_CHECK(!tensor.is_inference() || c10::InferenceMode::is_enabled(),
                "an inference tensor cannot be written to in place outside of inference mode: use "
                "tensor.clone(), or run under torch.inference_mode()");
    require_shareable(tensor);
  } catch (c10::Error& error) {
    error.add_context("The tensor was given for the output '" + output.name + "'.");
    throw;
  }
}

void Targets::set(size_t index, const at::Tensor& tensor) {
  require_writable((*outputs_)[index], tensor);
  set(index, borrow(tensor));
}

void Targets::set(size_t index, ValuePtr value) {
  const Node& node = (*outputs_)[index];
  const auto is_same = [&](size_t other) { return (*outputs_)[other].name == node.name; };
  TORCH_CHECK_VALUE(std::ranges::none_of(indices_, is_same), "the output '", node.name,
                    "' was given twice. ", expected());
  TORCH_CHECK_TYPE(node.element != nullptr && value->is_tensor() && &value->type() == node.element,
                   "the output '", node.name, "' is ", with_article(node.type),
                   ", but an OrtValue of ", value->type_string(), " was given. ", expected());
  TORCH_CHECK_BUFFER(!value->read_only(), "the OrtValue given for the output '", node.name,
                     "' is read-only");
  TORCH_CHECK_VALUE(value->device() == node.device, "the output '", node.name, "' is made on ",
                    node.device, ", but one on ", value->device(),
                    " was given: give one there, and copy it afterwards. ", expected());
  const at::IntArrayRef sizes = value->sizes();
  // As for inputs, an open rank looks like that of a scalar.
  bool fits = node.shape.empty() || node.shape.size() == sizes.size();
  for (size_t i = 0; fits && i < node.shape.size(); ++i) {
    fits = node.shape[i] < 0 || node.shape[i] == sizes[i];
  }
  TORCH_CHECK_VALUE(fits, "the output '", node.name, "' cannot be written into one of shape ",
                    sizes, ". ", expected());
  indices_.push_back(index);
  values_.push_back(std::move(value));
}

void Targets::require_apart(const Feeds& feeds) const {
  for (size_t i = 0; i < values_.size(); ++i) {
    const Node& node = (*outputs_)[indices_[i]];
    TORCH_CHECK_VALUE(!feeds.overlaps(values_[i]->data(), values_[i]->nbytes()), "the output '",
                      node.name,
                      "' would be written into the memory of an input: give it memory of its own");
    for (size_t j = 0; j < i; ++j) {
      TORCH_CHECK_VALUE(!overlap(memory_of(*values_[i]), memory_of(*values_[j])), "the outputs '",
                        (*outputs_)[indices_[j]].name, "' and '", node.name,
                        "' would be written into the same memory: give each its own");
    }
  }
}

void require_apart(const Value& target, const Node& output,
                   const std::vector<NamedValue>& initializers) {
  const std::span<const std::byte> memory = memory_of(target);
  for (const auto& [name, value] : initializers) {
    TORCH_CHECK_VALUE(!overlap(memory, memory_of(*value)), "the output '", output.name,
                      "' would be written into the memory of the initializer '", name,
                      "': give it memory of its own");
  }
}

std::string Targets::expected() const { return "The model's outputs are: " + describe(*outputs_); }

}  // namespace ortdl
