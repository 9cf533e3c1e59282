#include <c10/core/DeviceGuard.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ortdl/apart.h>
#include <ortdl/device_run.h>
#include <ortdl/interrupt.h>
#include <ortdl/outputs.h>
#include <ortdl/session.h>
#include <ortdl/wording.h>

#include <algorithm>
#include <numeric>

namespace ortdl {
namespace {

template <typename T>
using Small = c10::SmallVector<T, 8>;

// The current device of a type, for a guard that leaves it as it is.
std::optional<at::Device> current_of(std::optional<at::DeviceType> type) {
  return type.has_value() ? std::optional(c10::impl::VirtualGuardImpl(*type).getDevice())
                          : std::nullopt;
}

// `config` with the files behind it as they are now, which must be those that it knows.
SessionConfig located(SessionConfig config) {
  TORCH_CHECK_VALUE(config.embed || !config.path.empty(),
                    "embed=False saves a session by the path of its model, and this one's was "
                    "given as bytes: give the path, or leave embed=True");
  if (!config.path.empty()) {
    std::vector<ModelFile> found = model_files(config.path, !config.embed);
    if (!config.files.empty()) {
      require_same(config.files, found);
    }
    require_regular(found);
    config.path = found.front().path;
    config.files = std::move(found);
  }
  return config;
}

// ONNX Runtime copies the bytes when it loads the model.
void add_external_files(OrtSessionOptions* options, const std::vector<ExternalFile>& files) {
  if (files.empty()) {
    return;
  }
  std::vector<const char*> names;
  std::vector<char*> bytes;
  std::vector<size_t> sizes;
  char nothing = 0;  // ONNX Runtime takes no null pointer
  for (const ExternalFile& file : files) {
    names.push_back(file.name.c_str());
    const bool is_empty = file.bytes.numel() == 0;
    bytes.push_back(is_empty ? &nothing : static_cast<char*>(file.bytes.mutable_data_ptr()));
    sizes.push_back(file.bytes.nbytes());
  }
  check_status(api().AddExternalInitializersFromFilesInMemory(options, names.data(), bytes.data(),
                                                              sizes.data(), files.size()));
}

SessionHandle load(const SessionConfig& config, OrtSessionOptions* options, const ProviderUse& use,
                   std::optional<at::DeviceType> restored, BorrowedValues& weights) {
  const c10::OptionalDeviceGuard found(current_of(restored));
  // A provider waits for its accelerator, may change the current device, and allocates where its
  // work will be.
  if (use.device.has_value()) {
    require_no_capture(current_stream(*use.device));
  }
  const c10::OptionalDeviceGuard device(use.device);
  const c10::OptionalStreamGuard stream(use.stream);
  add_external_files(options, config.external_files);
  InitializedOptions initialized;
  if (!config.initializers.empty()) {
    initialized = with_initializers(options, config);
    options = initialized.options.get();
    weights = std::move(initialized.borrowed);
  }
  OrtSession* session = nullptr;
  check_status(config.model.defined()
                   ? api().CreateSessionFromArray(environment(), config.model.const_data_ptr(),
                                                  config.model.nbytes(), options, &session)
                   : api().CreateSession(environment(), config.path.c_str(), options, &session));
  return SessionHandle(session);
}

std::vector<const OrtEpDevice*> read_ep_devices(const OrtSession* session, size_t inputs) {
  std::vector<const OrtEpDevice*> devices(inputs, nullptr);
  if (inputs > 0) {
    check_status(api().SessionGetEpDeviceForInputs(session, devices.data(), inputs));
  }
  return devices;
}

// The accelerator that a session with these inputs and outputs works on, if any.
std::optional<at::Device> accelerator_of(const std::vector<Node>& inputs,
                                         const std::vector<Node>& outputs) {
  std::optional<at::Device> found;
  for (const std::vector<Node>* nodes : {&inputs, &outputs}) {
    for (const Node& node : *nodes) {
      if (node.device.is_cpu()) {
        continue;
      }
      TORCH_CHECK_VALUE(!found.has_value() || *found == node.device,
                        "the session works on two accelerators, ", *found, " and ", node.device,
                        ": make one session for each");
      found = node.device;
    }
  }
  return found;
}

size_t index_of(const std::vector<Node>& nodes, std::string_view name, const char* what) {
  const auto found = std::ranges::find(nodes, name, &Node::name);
  TORCH_CHECK_VALUE(found != nodes.end(), "the model has no ", what, " named '", name, "'. Its ",
                    what, "s are: ", describe(nodes));
  return static_cast<size_t>(found - nodes.begin());
}

}  // namespace

Session::Session(const SessionConfig& config) : Session(config, config.make_options()) {}

Session::Session(const SessionConfig& config, const SessionOptionsHandle& options)
    : Session(append_providers(options.get(), config.providers, config.runs_in_parallel()), config,
              options) {}

Session::Session(const ProviderUse& use, SessionConfig config, const SessionOptionsHandle& options)
    : counted_(std::in_place),
      config_(located(std::move(config))),
      restored_(plugin_accelerator()),
      handle_(load(config_, options.get(), use, restored_, weights_)),
      inputs_(read_inputs(handle_.get())),
      outputs_(read_outputs(handle_.get())),
      shapes_(inputs_, outputs_),
      all_outputs_(outputs_.size()),
      ep_devices_(read_ep_devices(handle_.get(), inputs_.size())),
      moves_inputs_(config_.moves_inputs()),
      torch_memory_(use.torch_memory && !config_.shares_allocators()) {
  if (!config_.embed || !config_.initializers.empty()) {
    // What was read of them has to be what ONNX Runtime loaded.
    std::ranges::for_each(config_.files, require_unchanged);
  }
  std::ranges::transform(inputs_, std::back_inserter(input_names_),
                         [](const Node& node) { return node.name.c_str(); });
  std::iota(all_outputs_.begin(), all_outputs_.end(), size_t{0});
  const std::optional<at::Device> accelerator = accelerator_of(inputs_, outputs_);
  TORCH_CHECK(!use.device.has_value() || accelerator.has_value(), "the execution provider '",
              use.name,
              "' was asked for, and ONNX Runtime gave it no part "
              "of the model that begins or ends on ",
              *use.device, ": leave it out to run the model on the CPU");
  if (accelerator.has_value()) {
    require_usable(*accelerator);
    lanes_ = make_lanes(*accelerator, use.stream);
  }
  repeats_ = can_repeat();
  prepared_ = std::make_unique<PreparedRuns>(inputs_, moves_inputs_);
  const std::vector<std::string> used = providers();
  if (!config_.initializers.empty()) {
    require_cpu_for_initializers(used);  // `options` may bring providers of their own
  }
  // Other providers than the CPU's may have threads, whatever they are told.
  has_threads_ = config_.may_use_threads() || used.size() > 1;
}

Session::~Session() { Session::release_resources(); }

void Session::release_resources() {
  if (!runs_here()) {
    static_cast<void>(handle_.release());
    static_cast<void>(prepared_.release());
    static_cast<void>(std::make_unique<std::shared_ptr<Lanes>>(std::move(lanes_)).release());
  }
  if (lanes_ != nullptr) {
    lanes_->wait();  // the session's memory goes now
  }
  lanes_.reset();
  prepared_.reset();
  counted_.reset();
  handle_.reset();
  weights_.clear();
  config_ = {};
}

void Session::complete(Feeds& feeds, at::TensorList inputs) const {
  TORCH_CHECK_VALUE(inputs.size() == inputs_.size(), "the model takes ",
                    counted(inputs_.size(), "input"), ", but ", were_given(inputs.size()), ". ",
                    expected_inputs(inputs_));
  for (size_t i = 0; i < inputs.size(); ++i) {
    feeds.set(i, inputs[i]);
  }
}

std::vector<at::Tensor> Session::run(at::TensorList inputs) const {
  const Preparation prepared = prepare();
  complete(prepared->feeds, inputs);
  return run(*prepared, all_outputs_);
}

void Session::run_into(at::TensorList outputs, at::TensorList inputs) const {
  TORCH_CHECK_VALUE(outputs.size() == outputs_.size(), "the model has ",
                    counted(outputs_.size(), "output"), ", but ", were_given(outputs.size()),
                    " to write into. The model's outputs are: ", describe(outputs_));
  Targets targets(outputs_);
  for (size_t i = 0; i < outputs.size(); ++i) {
    targets.set(i, outputs[i]);
  }
  const Preparation prepared = prepare();
  complete(prepared->feeds, inputs);
  run_into(targets, prepared->feeds);
}

void Session::run_into(const Targets& targets, const Feeds& feeds, OrtRunOptions* options) const {
  targets.require_apart(feeds);
  if (!config_.initializers.empty()) {
    for (size_t i = 0; i < targets.values().size(); ++i) {
      require_apart(*targets.values()[i], outputs_[targets.indices()[i]], config_.initializers);
    }
  }
  const Written written(targets.values());
  const at::ArrayRef<size_t> outputs = targets.indices();
  const Values made =
      run_values(feeds, outputs, options, {targets.values().begin(), targets.values().end()});
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (made[i] != targets.values()[i]) {
      targets.values()[i]->update(*made[i]);
    }
  }
}

IoBindingHandle Session::make_binding() const {
  return lanes_ == nullptr ? make_io_binding(handle_.get()) : nullptr;
}

void Session::run_bound(const OrtIoBinding* binding, OrtRunOptions* options) const {
  require_here();
  check_status(call_bound(binding, options).release());
}

StatusHandle Session::call_bound(const OrtIoBinding* binding, OrtRunOptions* options) const {
  const c10::OptionalDeviceGuard found(current_of(restored_));
  const InterruptibleRun run(options);
  return StatusHandle(api().RunWithBinding(handle_.get(), run.options(), binding));
}

std::vector<at::Tensor> Session::run(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                     OrtRunOptions* options) const {
  std::ranges::for_each(outputs, [this](size_t index) { check_output(index); });
  return to_tensors(feeds, run_values(feeds, outputs, options));
}

std::vector<at::Tensor> Session::to_tensors(const Feeds& feeds, const Values& values) {
  std::vector<at::Tensor> results;
  results.reserve(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    results.push_back(owned_tensor(values, i, feeds));
  }
  return results;
}

Session::Values Session::run_values(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                    OrtRunOptions* options, Values targets) const {
  require_here();
  targets.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (targets[i].defined() && !writes_in_place(outputs[i])) {
      targets[i].reset();
    }
  }
  return lanes_ == nullptr ? run_on_cpu(feeds, outputs, options, std::move(targets))
                           : run_on_accelerator(feeds, outputs, options, targets);
}

Session::Given Session::given(const Feeds& feeds) const {
  Given given;
  for (size_t i = 0; i < input_names_.size(); ++i) {
    if (const ::OrtValue* value = feeds.values()[i]; value != nullptr) {
      given.names.push_back(input_names_[i]);
      given.values.push_back(value);
    }
  }
  return given;
}

StatusHandle Session::call(const Feeds& feeds, at::ArrayRef<size_t> outputs, OrtRunOptions* options,
                           ::OrtValue** made) const {
  Small<const char*> names;
  for (const size_t index : outputs) {
    names.push_back(outputs_[index].name.c_str());
  }
  const Given inputs = given(feeds);
  const c10::OptionalDeviceGuard found(current_of(restored_));
  const InterruptibleRun run(options);
  return StatusHandle(api().Run(handle_.get(), run.options(), inputs.names.data(),
                                inputs.values.data(), inputs.values.size(), names.data(),
                                names.size(), made));
}

Session::Values Session::run_on_cpu(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                    OrtRunOptions* options, Values targets) const {
  Small<::OrtValue*> raw;
  for (const ValuePtr& target : targets) {
    raw.push_back(target.defined() ? target->handle() : nullptr);
  }
  StatusHandle failed = call(feeds, outputs, options, raw.data());
  Small<ValueHandle> made;
  made.resize(outputs.size());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!targets[i].defined()) {
      made[i].reset(raw[i]);
    }
  }
  check_status(failed.release());
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (!targets[i].defined()) {
      targets[i] = c10::make_intrusive<Value>(std::move(made[i]));
    }
  }
  return targets;
}

Session::Values Session::run_on_accelerator(const Feeds& feeds, at::ArrayRef<size_t> outputs,
                                            OrtRunOptions* options, const Values& targets) const {
  // A binding gives each output once.
  std::vector<const Node*> wanted;
  std::vector<size_t> places;
  for (const size_t index : outputs) {
    const auto known = std::ranges::find(wanted, &outputs_[index]);
    places.push_back(static_cast<size_t>(known - wanted.begin()));
    if (known == wanted.end()) {
      wanted.push_back(&outputs_[index]);
    }
  }
  const std::vector<ValuePtr> made =
      run_on_device(handle_.get(), lanes_, inputs_, feeds, wanted, torch_memory_, options, targets);
  Values values;
  std::ranges::transform(places, std::back_inserter(values),
                         [&made](size_t place) { return made[place]; });
  return values;
}

std::shared_ptr<Lanes> Session::make_lanes(at::Device accelerator,
                                           std::optional<c10::Stream> fixed) const {
  const OrtEpDevice* plugin = fixed.has_value() ? nullptr : stream_maker(accelerator);
  std::shared_ptr<Lanes> lanes =
      plugin == nullptr ? nullptr : Lanes::of_plugin(accelerator, plugin);
  return lanes != nullptr ? lanes : std::make_shared<Lanes>(accelerator, fixed);
}

const OrtEpDevice* Session::stream_maker(at::Device accelerator) const {
  // A session that runs its nodes in parallel ignores the stream of a run.
  if (set_sync_stream() == nullptr || config_.runs_in_parallel()) {
    return nullptr;
  }
  const auto known = std::ranges::find_if(
      ep_devices_, [](const OrtEpDevice* device) { return device != nullptr; });
  // The session names the first device of its provider, whichever it works on.
  return known == ep_devices_.end() ? nullptr
                                    : find_ep_device(api().EpDevice_EpName(*known), accelerator);
}

void Session::refuse_forked() {
  TORCH_CHECK(false,
              "this session was made before the process forked, and its threads did not come "
              "along: ",
              kForkRemedy,
              ". On the CPU, a session of sequential execution with intra_op_num_threads=1 has no "
              "threads and runs in a child as well");
}

std::vector<std::string> Session::providers() const {
  std::vector<std::string> names;
  const auto add = [&names](const std::string& name) {
    if (name != kCpuProvider && std::ranges::find(names, name) == names.end()) {
      names.push_back(name);
    }
  };
  for (const Provider& provider : config_.providers) {
    if (provider.name == kCpuProvider) {
      break;  // what is asked for after it is never used
    }
    add(provider.name);
  }
  for (const OrtEpDevice* device : ep_devices_) {
    if (device != nullptr) {
      add(api().EpDevice_EpName(device));
    }
  }
  names.emplace_back(kCpuProvider);
  return names;
}

size_t Session::input_index(std::string_view name) const {
  return index_of(inputs_, name, "input");
}

size_t Session::output_index(std::string_view name) const {
  return index_of(outputs_, name, "output");
}

bool Session::writes_in_place(size_t output) const {
  return !input_of(output).has_value() && std::ranges::all_of(inputs_, &is_dense);
}

std::optional<size_t> Session::input_of(size_t output) const {
  const auto found = std::ranges::find(inputs_, outputs_[output].name, &Node::name);
  return found == inputs_.end() ? std::nullopt
                                : std::optional(static_cast<size_t>(found - inputs_.begin()));
}

void Session::check_output(size_t index) const { require_dense(outputs_[index], outputs_); }

}  // namespace ortdl
