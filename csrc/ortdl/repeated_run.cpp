#include <ortdl/outputs.h>
#include <ortdl/session.h>

#include <algorithm>
#include <string_view>

namespace ortdl {
namespace {

// Bytes of outputs that are kept for the next run. PyTorch and ONNX Runtime have allocators for
// more than that.
constexpr size_t kMostKept = size_t{1} << 16;

// Whether `value` has a shape that `node` declares: ONNX Runtime takes no other one to write into.
bool is_as_declared(const Node& node, const Value& value) {
  return std::ranges::equal(node.shape, value.sizes(), [](int64_t declared, int64_t size) {
    return declared < 0 || declared == size;
  });
}

// Whether `values` can be written into again: `tensors` are of their memory, not of copies.
bool are_fit(const std::vector<Node>& nodes, const Session::Values& values,
             at::TensorList tensors) {
  size_t bytes = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensors[i].const_data_ptr() != values[i]->data() || !is_as_declared(nodes[i], *values[i])) {
      return false;
    }
    bytes += values[i]->nbytes();
  }
  return bytes <= kMostKept;
}

// Nobody can get hold of what only the session holds. What other threads did with the outputs comes
// before what is written into them now.
bool is_free(const Prepared::Kept& kept) {
  return !kept.outputs.empty() && std::ranges::all_of(kept.outputs, [](const ValuePtr& value) {
    return value.is_uniquely_owned();
  });
}

// There is no code for it, and releases word it differently.
bool is_of_shape(const OrtStatus* failed) {
  const std::string_view message = api().GetErrorMessage(failed);
  return message.find("pre-allocated output OrtValues") != std::string_view::npos ||
         message.find("shape verification failed") != std::string_view::npos;
}

}  // namespace

bool Session::can_repeat() const {
  const auto is_fit = [this](size_t output) {
    const auto is_same = [&](const Node& node) { return node.name == outputs_[output].name; };
    return is_dense(outputs_[output]) && writes_in_place(output) && shapes_.determines(output) &&
           std::ranges::count_if(outputs_, is_same) == 1;
  };
  return lanes_ == nullptr && !outputs_.empty() && std::ranges::all_of(all_outputs_, is_fit);
}

std::vector<at::Tensor> Session::run(Prepared& prepared, at::ArrayRef<size_t> outputs,
                                     OrtRunOptions* options) const {
  const bool resized = prepared.feeds.take_resized();
  const bool renewed = prepared.feeds.take_renewed();
  if (resized) {
    prepared.forget_outputs();
  } else if (renewed) {
    // Binding an input again costs more than what a binding saves in one run.
    prepared.forget_bindings();
  }
  prepared.feeds.require_all();
  if (!repeats_.load(std::memory_order_relaxed) || outputs != all_outputs()) {
    return run(prepared.feeds, outputs, options);
  }
  require_here();
  const auto free = std::ranges::find_if(prepared.kept, is_free);
  if (free != prepared.kept.end()) {
    StatusHandle failed = repeat(*free, prepared.feeds, renewed, options);
    if (failed == nullptr) {
      std::vector<at::Tensor> results;
      results.reserve(outputs.size());
      for (const ValuePtr& value : free->outputs) {
        value->renew_version();
        results.push_back(value->to_tensor());
      }
      return results;
    }
    prepared.forget_outputs();
    if (!is_of_shape(failed.get())) {
      check_status(failed.release());
    }
    // The model gives another shape than it declares, and will do so again.
    repeats_.store(false, std::memory_order_relaxed);
  }
  Values values = run_values(prepared.feeds, outputs, options);
  std::vector<at::Tensor> results = to_tensors(prepared.feeds, values);
  if (are_fit(outputs_, values, results)) {
    prepared.oldest() = {.outputs = std::move(values), .binding = nullptr};
  }
  return results;
}

StatusHandle Session::repeat(Prepared::Kept& kept, const Feeds& feeds, bool renewed,
                             OrtRunOptions* options) const {
  if (!renewed && options == nullptr) {  // with a binding, ONNX Runtime leaves out LoRA adapters
    if (kept.binding == nullptr) {
      kept.binding = bind(feeds, kept.outputs);
    }
    return call_bound(kept.binding.get(), nullptr);
  }
  c10::SmallVector<::OrtValue*, 8> targets;
  for (const ValuePtr& value : kept.outputs) {
    targets.push_back(value->handle());
  }
  return call(feeds, all_outputs_, options, targets.data());
}

IoBindingHandle Session::bind(const Feeds& feeds, const Values& outputs) const {
  IoBindingHandle binding = make_io_binding(handle_.get());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (const ::OrtValue* value = feeds.values()[i]; value != nullptr) {
      check_status(api().BindInput(binding.get(), input_names_[i], value));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_status(api().BindOutput(binding.get(), outputs_[i].name.c_str(), outputs[i]->handle()));
  }
  return binding;
}

}  // namespace ortdl
