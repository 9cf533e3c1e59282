#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <ortdl/device_run.h>
#include <ortdl/interrupt.h>
#include <ortdl/io_binding.h>
#include <ortdl/torch_memory.h>

#include <algorithm>
#include <string_view>

namespace ortdl {
namespace {

IoBindingHandle bind(OrtSession* session, const std::vector<Node>& inputs, const Feeds& feeds,
                     const std::vector<const Node*>& outputs, at::ArrayRef<ValuePtr> in_place) {
  IoBindingHandle binding = make_io_binding(session);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (const ::OrtValue* value = feeds.values()[i]; value != nullptr) {
      check_status(api().BindInput(binding.get(), inputs[i].name.c_str(), value));
    }
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Node& output = *outputs[i];
    const bool given = i < in_place.size() && in_place[i].defined();
    check_status(given ? api().BindOutput(binding.get(), output.name.c_str(), in_place[i]->handle())
                       : api().BindOutputToDevice(
                             binding.get(), output.name.c_str(),
                             output.memory != nullptr ? output.memory : memory_info(at::kCPU)));
  }
  return binding;
}

// Order work on `current` between all that was done with `value` and all that will be.
void order_after(const ValuePtr& value, c10::Stream current) {
  if (value.defined()) {
    value->order_before(current);
  }
}

void order_before(const ValuePtr& value, c10::Stream current) {
  const std::optional<c10::Stream> later = value.defined() ? value->stream() : std::nullopt;
  if (later.has_value()) {
    order(current, *later);
  }
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

constexpr const char* kNoWaiting = "disable_synchronize_execution_providers";

// Options of the caller's that let the run end before its work does, which nobody else can wait
// for.
void require_waiting(const OrtRunOptions* options) {
  const char* entry = api().GetRunConfigEntry(options, kNoWaiting);
  TORCH_CHECK_VALUE(entry == nullptr || std::string_view(entry) == "0", "the run options have '",
                    kNoWaiting,
                    "', and the outputs would not be ready when the run ends: leave it "
                    "out, or run without options, when outputs on the accelerator are ordered on "
                    "its streams");
}

}  // namespace

std::vector<ValuePtr> run_on_device(OrtSession* session, const std::shared_ptr<Lanes>& lanes,
                                    const std::vector<Node>& inputs, const Feeds& feeds,
                                    const std::vector<const Node*>& outputs, bool torch_memory,
                                    OrtRunOptions* options, at::ArrayRef<ValuePtr> in_place) {
  const at::Device device = lanes->device();
  const c10::Stream joined = current_stream(device);
  TORCH_CHECK(!joined.is_capturing(), "a session cannot run while ", joined,
              " is being captured into a graph, since ONNX Runtime allocates and may wait on its "
              "own: run it before or after the capture");
  const Lanes::Loan lane(*lanes, options == nullptr);
  const bool host_reads =
      std::ranges::any_of(outputs, [](const Node* output) { return output->device.is_cpu(); });
  RunOptionsHandle made;
  if (options == nullptr) {
    made = lane->run_options(host_reads);
    options = made.get();
  } else if (host_reads || !lane->stream.has_value()) {
    require_waiting(options);
  }
  const IoBindingHandle binding = bind(session, inputs, feeds, outputs, in_place);

  feeds.order_before(joined);
  for (const ValuePtr& value : in_place) {
    order_after(value, joined);
  }
  lane->begin_after(joined);
  StatusHandle failed;
  {
    const Working here(device, lane->stream);
    const InterruptibleRun run(options);
    failed.reset(api().RunWithBinding(session, run.options(), binding.get()));
  }
  lane->end_before(joined);  // also for what was queued before a failure
  for (const ValuePtr& value : in_place) {
    order_before(value, joined);
  }
  check_status(failed.release());

  std::vector<ValuePtr> values;
  for (ValueHandle& output : bound_outputs(binding.get())) {
    if (values.size() < in_place.size() && in_place[values.size()].defined()) {
      values.push_back(in_place[values.size()]);
      continue;
    }
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
