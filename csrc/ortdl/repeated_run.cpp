#include <ortdl/outputs.h>
#include <ortdl/session.h>

#include <algorithm>
#include <atomic>
#include <iterator>
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

// Whether nothing else holds `output`, so that nobody can get hold of it either, and its storage is
// as it was made: PyTorch puts other memory into one to share it between processes.
bool is_free(const KeptOutput& output) {
  // What other threads did with the memory comes before what is written into it now.
  return output.storage.is_uniquely_owned() && output.value.use_count() == 2 &&
         output.storage->data() == output.value->address();
}

bool are_free(const Prepared::Kept& kept) {
  return !kept.outputs.empty() && std::ranges::all_of(kept.outputs, [](const KeptOutput& output) {
    return is_free(output);
  });
}

Tensors moved(std::vector<at::Tensor> tensors) {
  return {std::make_move_iterator(tensors.begin()), std::make_move_iterator(tensors.end())};
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
    const Node& node = outputs_[output];
    return is_dense(node) && node.element->per_scalar() == 1 && writes_in_place(output) &&
           shapes_.determines(output) && std::ranges::count(outputs_, node.name, &Node::name) == 1;
  };
  return lanes_ == nullptr && !outputs_.empty() && std::ranges::all_of(all_outputs_, is_fit);
}

Tensors Session::run(Prepared& prepared, at::ArrayRef<size_t> outputs,
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
    return moved(run(prepared.feeds, outputs, options));
  }
  require_here();
  const auto free = std::ranges::find_if(prepared.kept, are_free);
  if (free != prepared.kept.end()) {
    StatusHandle failed = repeat(*free, prepared.feeds, renewed, options);
    if (failed == nullptr) {
      Tensors results;
      results.reserve(outputs.size());
      for (const KeptOutput& output : free->outputs) {
        output.value->renew_version();
        results.push_back(output.value->to_tensor_over(output.storage));
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
    Prepared::Kept& kept = prepared.oldest();
    kept = {};
    for (size_t i = 0; i < values.size(); ++i) {
      kept.outputs.push_back({.value = std::move(values[i]),
                              .storage = c10::intrusive_ptr<c10::StorageImpl>::reclaim_copy(
                                  results[i].storage().unsafeGetStorageImpl())});
    }
  }
  return moved(std::move(results));
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
  for (const KeptOutput& output : kept.outputs) {
    targets.push_back(output.value->handle());
  }
  return call(feeds, all_outputs_, options, targets.data());
}

IoBindingHandle Session::bind(const Feeds& feeds, at::ArrayRef<KeptOutput> outputs) const {
  IoBindingHandle binding = make_io_binding(handle_.get());
  for (size_t i = 0; i < inputs_.size(); ++i) {
    if (const ::OrtValue* value = feeds.values()[i]; value != nullptr) {
      check_status(api().BindInput(binding.get(), input_names_[i], value));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    check_status(
        api().BindOutput(binding.get(), outputs_[i].name.c_str(), outputs[i].value->handle()));
  }
  return binding;
}

}  // namespace ortdl
