#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <ortdl/device_run.h>
#include <ortdl/torch_memory.h>

#include <algorithm>

namespace ortdl {
namespace {

using IoBindingHandle = std::unique_ptr<OrtIoBinding, Releaser<&OrtApi::ReleaseIoBinding>>;

IoBindingHandle bind(OrtSession* session, const std::vector<Node>& inputs, const Feeds& feeds,
                     const std::vector<const Node*>& outputs) {
  OrtIoBinding* created = nullptr;
  check_status(api().CreateIoBinding(session, &created));
  IoBindingHandle binding(created);
  for (size_t i = 0; i < inputs.size(); ++i) {
    check_status(api().BindInput(created, inputs[i].name.c_str(), feeds.values()[i]));
  }
  for (const Node* output : outputs) {
    check_status(api().BindOutputToDevice(
        created, output->name.c_str(),
        output->memory != nullptr ? output->memory : memory_info(at::kCPU)));
  }
  return binding;
}

std::vector<ValueHandle> take_outputs(const OrtIoBinding* binding) {
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  ::OrtValue** values = nullptr;
  size_t count = 0;
  check_status(api().GetBoundOutputValues(binding, allocator, &values, &count));
  const auto free = [allocator](::OrtValue** array) noexcept {
    allocator->Free(allocator, static_cast<void*>(array));
  };
  const std::unique_ptr<::OrtValue*, decltype(free)> array(values, free);
  return {values, values + count};
}

// The lane's stream, or at least its device, as the current one: the provider allocates there.
class Working {
 public:
  Working(at::Device device, std::optional<c10::Stream> stream) : device_(device) {
    if (stream.has_value()) {
      stream_.reset_stream(*stream);
    }
  }

 private:
  c10::DeviceGuard device_;
  c10::OptionalStreamGuard stream_;
};

}  // namespace

std::vector<ValuePtr> run_on_device(OrtSession* session, const std::shared_ptr<Lanes>& lanes,
                                    const std::vector<Node>& inputs, const Feeds& feeds,
                                    const std::vector<const Node*>& outputs, bool torch_memory,
                                    OrtRunOptions* options) {
  const at::Device device = lanes->device();
  const c10::Stream joined = current_stream(device);
  TORCH_CHECK(!joined.is_capturing(), "a session cannot run while ", joined,
              " is being captured into a graph, since ONNX Runtime allocates and may wait on its "
              "own: run it before or after the capture");
  const Lanes::Loan lane(*lanes);
  const bool host_reads =
      std::ranges::any_of(outputs, [](const Node* output) { return output->device.is_cpu(); });
  const RunOptionsHandle made = lane->run_options(host_reads);
  const IoBindingHandle binding = bind(session, inputs, feeds, outputs);

  feeds.order_before(joined);
  lane->begin_after(joined);
  StatusHandle failed;
  {
    const Working here(device, lane->stream);
    failed.reset(
        api().RunWithBinding(session, options != nullptr ? options : made.get(), binding.get()));
  }
  lane->end_before(joined);  // also for what was queued before a failure
  check_status(failed.release());

  std::vector<ValuePtr> values;
  for (ValueHandle& output : take_outputs(binding.get())) {
    auto value =
        c10::make_intrusive<Value>(std::move(output), joined, torch_memory ? nullptr : lanes);
    // An output that is an input is the caller's memory.
    if (torch_memory && value->stream().has_value() && !feeds.overlaps(value->data())) {
      record_use(value->data(), joined);
    }
    values.push_back(std::move(value));
  }
  return values;
}

}  // namespace ortdl
