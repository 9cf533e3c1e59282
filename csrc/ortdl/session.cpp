#include <ortdl/memory.h>
#include <ortdl/session.h>
#include <ortdl/shareable.h>

#include <algorithm>
#include <numeric>

namespace ortdl {
namespace {

template <typename T>
using Small = c10::SmallVector<T, 8>;

SessionHandle load(const SessionConfig& config, const OrtSessionOptions* options) {
  OrtSession* session = nullptr;
  check_status(config.model.defined()
                   ? api().CreateSessionFromArray(environment(), config.model.const_data_ptr(),
                                                  config.model.nbytes(), options, &session)
                   : api().CreateSession(environment(), config.path.c_str(), options, &session));
  return SessionHandle(session);
}

SessionOptionsHandle complete_options(const SessionConfig& config) {
  SessionOptionsHandle options = config.make_options();
  config.append_providers(options.get());
  return options;
}

size_t index_of(const std::vector<Node>& nodes, std::string_view name, const char* what) {
  const auto found = std::ranges::find(nodes, name, &Node::name);
  TORCH_CHECK_VALUE(found != nodes.end(), "the model has no ", what, " named '", name, "'. Its ",
                    what, "s are: ", describe(nodes));
  return static_cast<size_t>(found - nodes.begin());
}

// The tensors' memory as OrtValues for the length of one run: they own nothing, the storages
// beside them do.
class Feeds {
 public:
  void add(const at::Tensor& tensor, const ElementType& type) {
    const at::Tensor dense = shareable(tensor, Copy::kIfNeeded);
    c10::SmallVector<int64_t, 5> sizes(dense.sizes().begin(), dense.sizes().end());
    if (!sizes.empty()) {
      sizes.back() *= type.per_scalar();
    }
    // ONNX Runtime takes a pointer to change, but never changes an input.
    void* data = const_cast<void*>(dense.const_data_ptr());
    ::OrtValue* value = nullptr;
    check_status(api().CreateTensorWithDataAsOrtValue(memory_info(dense.device()), data,
                                                      dense.nbytes(), sizes.data(), sizes.size(),
                                                      type.ort, &value));
    owned_.emplace_back(value);
    values_.push_back(value);
    storages_.push_back(dense.storage());
    spans_.emplace_back(static_cast<const std::byte*>(data), dense.nbytes());
  }

  [[nodiscard]] const ::OrtValue* const* data() const noexcept { return values_.data(); }

  // A graph output that is a graph input comes back as the caller's own memory.
  [[nodiscard]] bool overlaps(const void* output) const noexcept {
    const auto* data = static_cast<const std::byte*>(output);
    return std::ranges::any_of(spans_, [data](const std::span<const std::byte>& span) {
      return !span.empty() && data >= span.data() && data < span.data() + span.size();
    });
  }

 private:
  Small<ValueHandle> owned_;
  Small<const ::OrtValue*> values_;
  Small<c10::Storage> storages_;
  Small<std::span<const std::byte>> spans_;
};

}  // namespace

Session::Session(const SessionConfig& config) : Session(config, complete_options(config)) {}

Session::Session(SessionConfig config, SessionOptionsHandle options)
    : config_(std::move(config)),
      handle_(load(config_, options.get())),
      inputs_(read_inputs(handle_.get())),
      outputs_(read_outputs(handle_.get())),
      all_outputs_(outputs_.size()) {
  std::ranges::transform(inputs_, std::back_inserter(input_names_),
                         [](const Node& node) { return node.name.c_str(); });
  std::iota(all_outputs_.begin(), all_outputs_.end(), size_t{0});
}

std::vector<at::Tensor> Session::run(at::TensorList inputs) const {
  return run(inputs, all_outputs_);
}

std::vector<at::Tensor> Session::run(at::TensorList inputs, at::ArrayRef<size_t> outputs) const {
  TORCH_CHECK_VALUE(inputs.size() == inputs_.size(), "the model takes ", inputs_.size(),
                    " inputs, but ", inputs.size(), " were given. ", expected());
  Feeds feeds;
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_input(i, inputs[i]);
    try {
      feeds.add(inputs[i], *inputs_[i].element);
    } catch (c10::Error& error) {
      error.add_context("The tensor was given for the input '" + inputs_[i].name + "'. " +
                        expected());
      throw;
    }
  }
  Small<const char*> names;
  for (const size_t index : outputs) {
    check_output(index);
    names.push_back(outputs_[index].name.c_str());
  }
  Small<::OrtValue*> raw(outputs.size(), nullptr);
  OrtStatus* status = api().Run(handle_.get(), nullptr, input_names_.data(), feeds.data(),
                                inputs.size(), names.data(), names.size(), raw.data());
  Small<ValueHandle> owned(raw.begin(), raw.end());
  check_status(status);

  std::vector<at::Tensor> results;
  results.reserve(owned.size());
  for (size_t i = 0; i < owned.size(); ++i) {
    const auto value = c10::make_intrusive<Value>(std::move(owned[i]));
    // An output asked for twice is one piece of memory.
    const auto before = outputs.slice(0, i);
    const bool shared =
        feeds.overlaps(value->data()) || std::ranges::find(before, outputs[i]) != before.end();
    results.push_back(value->to_tensor(shared ? Copy::kAlways : Copy::kNever));
  }
  return results;
}

size_t Session::input_index(std::string_view name) const {
  return index_of(inputs_, name, "input");
}

size_t Session::output_index(std::string_view name) const {
  return index_of(outputs_, name, "output");
}

std::string Session::expected() const { return "The model's inputs are: " + describe(inputs_); }

void Session::check_input(size_t index, const at::Tensor& tensor) const {
  const Node& node = inputs_[index];
  TORCH_CHECK_TYPE(tensor.defined(), "the input '", node.name, "' is an undefined tensor");
  TORCH_CHECK_TYPE(node.element != nullptr && node.element->scalar != at::ScalarType::Undefined,
                   "the input '", node.name, "' is a ", node.type,
                   ", which no tensor can be: run this model with onnxruntime. ", expected());
  TORCH_CHECK_TYPE(tensor.scalar_type() == node.element->scalar, "the input '", node.name,
                   "' must have dtype torch.", c10::getDtypeNames(node.element->scalar).first, " (",
                   node.type, "), but a tensor of dtype torch.",
                   c10::getDtypeNames(tensor.scalar_type()).first,
                   " was given: convert it with tensor.to(dtype). ", expected());
  // ONNX Runtime reports rank 0 for a scalar and for an open rank alike, and checks it itself.
  const size_t rank = node.shape.size();
  if (rank == 0) {
    return;
  }
  TORCH_CHECK_VALUE(static_cast<size_t>(tensor.dim()) == rank, "the input '", node.name,
                    "' must have ", rank, " dimensions, but a tensor of shape ", tensor.sizes(),
                    " was given. ", expected());
  for (size_t i = 0; i < rank; ++i) {
    const int64_t size =
        tensor.size(static_cast<int64_t>(i)) * (i + 1 == rank ? node.element->per_scalar() : 1);
    TORCH_CHECK_VALUE(node.shape[i] < 0 || node.shape[i] == size, "the input '", node.name,
                      "' must have size ", node.shape[i], " in dimension ", i,
                      ", but a tensor of shape ", tensor.sizes(), " was given. ", expected());
  }
}

void Session::check_output(size_t index) const {
  const Node& node = outputs_[index];
  TORCH_CHECK_TYPE(node.element != nullptr && node.element->scalar != at::ScalarType::Undefined,
                   "the output '", node.name, "' is a ", node.type,
                   ", which PyTorch has no tensor for: ask for other outputs with "
                   "session.run([names], feeds), or run this model with onnxruntime. "
                   "The model's outputs are: ",
                   describe(outputs_));
}

}  // namespace ortdl
