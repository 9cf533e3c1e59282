#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/util/StringUtil.h>
#include <ortdl/memory.h>
#include <ortdl/providers.h>
#include <ortdl/stream.h>
#include <ortdl/torch_memory.h>

#include <algorithm>
#include <charconv>
#include <memory>
#include <span>

namespace ortdl {
namespace {

// Built in or plugged in, these two take a stream and an allocator.
constexpr const char* kCuda = "CUDAExecutionProvider";
constexpr const char* kRocm = "ROCMExecutionProvider";
constexpr const char* kStreamOption = "user_compute_stream";

template <typename Number>
Number number_of(const Provider& provider, const char* option, Number otherwise) {
  if (!provider.options.contains(option)) {
    return otherwise;
  }
  const std::string& text = provider.options.at(option);
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  TORCH_CHECK_VALUE(error == std::errc() && stop == end, "the option '", option, "' of ",
                    provider.name, " must be a number, not '", text, "'");
  return number;
}

bool has_nul(const std::string& text) { return text.find('\0') != std::string::npos; }

// Options as the two arrays that ONNX Runtime takes.
class Arrays {
 public:
  explicit Arrays(const StringDict& options) {
    texts_.reserve(2 * options.size());  // the pointers stay good
    for (const auto& option : options) {
      keys.push_back(texts_.emplace_back(option.key()).c_str());
      values.push_back(texts_.emplace_back(option.value()).c_str());
    }
  }

  std::vector<const char*> keys;
  std::vector<const char*> values;

 private:
  std::vector<std::string> texts_;  // a dictionary gives copies
};

std::span<const OrtEpDevice* const> ep_devices() {
  const OrtEpDevice* const* devices = nullptr;
  size_t count = 0;
  check_status(api().GetEpDevices(environment(), &devices, &count));
  return {devices, count};
}

std::vector<const OrtEpDevice*> ep_devices(const std::string& name) {
  std::vector<const OrtEpDevice*> found;
  for (const OrtEpDevice* device : ep_devices()) {
    if (name == api().EpDevice_EpName(device)) {
      found.push_back(device);
    }
  }
  return found;
}

at::Device device_of(const Provider& provider, at::DeviceType type) {
  const at::Device device(type, number_of<at::DeviceIndex>(provider, "device_id", 0));
  require_usable(device);
  return device;
}

// How one provider of a session is given its place.
struct Placement {
  OrtSessionOptions* options;
  const Provider& provider;
  bool parallel;
  ProviderUse& use;
};

bool names_stream(const Provider& provider) { return provider.options.contains(kStreamOption); }

// Notes that the provider works on `device`. Two accelerators in one session have no common order,
// but for those that take the same stream.
void claim(const Placement& place, at::Device device, bool takes_stream) {
  ProviderUse& use = place.use;
  TORCH_CHECK_VALUE(
      !use.device.has_value() || (takes_stream && use.device == device && use.stream.has_value() &&
                                  !use.torch_memory && !names_stream(place.provider)),
      place.provider.name, " and ", use.name,
      " cannot work in one session in PyTorch's order: ask for one of them, or for "
      "TensorRT's before CUDA's on the same device");
  if (!use.device.has_value()) {
    use.device = device;
    use.name = place.provider.name;
  }
}

// The stream on which the provider is to work: the user's, that of the provider before it, or one
// of PyTorch's.
c10::Stream choose_stream(const Placement& place, at::Device device) {
  claim(place, device, /*takes_stream=*/true);
  ProviderUse& use = place.use;
  if (names_stream(place.provider)) {
    const auto handle = number_of<uintptr_t>(place.provider, kStreamOption, 0);
    TORCH_CHECK_VALUE(handle % 2 == 0, "the option '", kStreamOption, "' of ", place.provider.name,
                      " must be a stream's handle, and none is ", handle);
    use.stream = stream_of_handle(device, handle);
  }
  const c10::Stream stream =
      use.stream.has_value()
          ? *use.stream
          : c10::impl::VirtualGuardImpl(device.type()).getStreamFromGlobalPool(device);
  use.stream = stream;
  return stream;
}

// The options that are given as text; a stream is a pointer.
StringDict texts_of(const Provider& provider) {
  StringDict texts = provider.options.copy();
  static_cast<void>(texts.erase(kStreamOption));
  return texts;
}

// Whether the provider is given PyTorch's allocator, so that the two share one cache. ONNX Runtime
// takes none beside a stream, and allocates on threads of its own where nodes run in parallel.
bool takes_torch_memory(const Placement& place) {
  const StringDict& given = place.provider.options;
  return !place.parallel && !place.use.stream.has_value() && !names_stream(place.provider) &&
         !given.contains("gpu_external_alloc") && !given.contains("gpu_external_free");
}

// With an allocator of its user's, the provider works on the default stream.
void give_torch_memory(const Placement& place, at::Device device, StringDict& texts) {
  claim(place, device, /*takes_stream=*/false);
  const TorchMemory memory = torch_memory(device.type());
  texts.insert("gpu_external_alloc", memory.allocate);
  texts.insert("gpu_external_free", memory.free);
  texts.insert("gpu_external_empty_cache", memory.empty_cache);
  place.use.stream = stream_of_handle(device, 0);
  place.use.torch_memory = true;
}

// What makes the CUDA or ROCm provider work in PyTorch's order: as text, but for the stream, if
// any.
std::optional<c10::Stream> prepare(const Placement& place, at::Device device, StringDict& texts) {
  if (takes_torch_memory(place)) {
    give_torch_memory(place, device, texts);
    return std::nullopt;
  }
  return choose_stream(place, device);
}

// Appends a provider whose options are an object of ONNX Runtime that takes text and pointers.
template <typename Options, auto Create, auto Update, auto SetPointer, auto Append, auto Release>
void append_object(OrtSessionOptions* options, const StringDict& texts,
                   std::optional<c10::Stream> stream) {
  Options* created = nullptr;
  check_status((api().*Create)(&created));
  const std::unique_ptr<Options, Releaser<Release>> owned(created);
  const Arrays arrays(texts);
  check_status(
      (api().*Update)(created, arrays.keys.data(), arrays.values.data(), arrays.keys.size()));
  if (stream.has_value()) {
    check_status((api().*SetPointer)(created, kStreamOption, stream->native_handle()));
  }
  check_status((api().*Append)(options, created));
}

void append_cuda(const Placement& place) {
  StringDict texts = texts_of(place.provider);
  const auto stream = prepare(place, device_of(place.provider, at::kCUDA), texts);
  append_object<OrtCUDAProviderOptionsV2, &OrtApi::CreateCUDAProviderOptions,
                &OrtApi::UpdateCUDAProviderOptions, &OrtApi::UpdateCUDAProviderOptionsWithValue,
                &OrtApi::SessionOptionsAppendExecutionProvider_CUDA_V2,
                &OrtApi::ReleaseCUDAProviderOptions>(place.options, texts, stream);
}

void append_tensorrt(const Placement& place) {
  const c10::Stream stream = choose_stream(place, device_of(place.provider, at::kCUDA));
  append_object<OrtTensorRTProviderOptionsV2, &OrtApi::CreateTensorRTProviderOptions,
                &OrtApi::UpdateTensorRTProviderOptions,
                &OrtApi::UpdateTensorRTProviderOptionsWithValue,
                &OrtApi::SessionOptionsAppendExecutionProvider_TensorRT_V2,
                &OrtApi::ReleaseTensorRTProviderOptions>(place.options, texts_of(place.provider),
                                                         stream);
}

void append_rocm(const Placement& place) {
  StringDict texts = texts_of(place.provider);
  const auto stream = prepare(place, device_of(place.provider, rocm_type()), texts);
  OrtROCMProviderOptions* created = nullptr;
  check_status(api().CreateROCMProviderOptions(&created));
  const std::unique_ptr<OrtROCMProviderOptions, Releaser<&OrtApi::ReleaseROCMProviderOptions>>
      owned(created);
  const Arrays arrays(texts);
  check_status(api().UpdateROCMProviderOptions(created, arrays.keys.data(), arrays.values.data(),
                                               arrays.keys.size()));
  if (stream.has_value()) {
    created->has_user_compute_stream = 1;
    created->user_compute_stream = stream->native_handle();
  }
  check_status(api().SessionOptionsAppendExecutionProvider_ROCM(place.options, created));
}

// Its C struct takes no stream and no allocator.
void append_migraphx(const Placement& place) {
  const Provider& provider = place.provider;
  OrtMIGraphXProviderOptions known{};
  known.migraphx_mem_limit = SIZE_MAX;
  for (const auto& option : provider.options) {
    TORCH_CHECK_VALUE(option.key() == "device_id" || option.key() == "migraphx_fp16_enable" ||
                          option.key() == "migraphx_fp8_enable" ||
                          option.key() == "migraphx_int8_enable",
                      "ONNX Runtime's C API has no option '", option.key(), "' of ", provider.name,
                      ": device_id, migraphx_fp16_enable, migraphx_fp8_enable and "
                      "migraphx_int8_enable are known");
  }
  claim(place, device_of(provider, rocm_type()), /*takes_stream=*/false);
  known.device_id = number_of(provider, "device_id", 0);
  known.migraphx_fp16_enable = number_of(provider, "migraphx_fp16_enable", 0);
  known.migraphx_fp8_enable = number_of(provider, "migraphx_fp8_enable", 0);
  known.migraphx_int8_enable = number_of(provider, "migraphx_int8_enable", 0);
  check_status(api().SessionOptionsAppendExecutionProvider_MIGraphX(place.options, &known));
}

// The plug-in's device with the number `device_id`, in its own count or else in ONNX Runtime's.
const OrtEpDevice* choose(const std::vector<const OrtEpDevice*>& devices,
                          const Provider& provider) {
  const auto wanted = number_of<size_t>(provider, "device_id", 0);
  for (const OrtEpDevice* device : devices) {
    const char* own = api().GetKeyValue(api().EpDevice_EpMetadata(device), "device_id");
    if (own != nullptr && own == std::to_string(wanted)) {
      return device;
    }
  }
  TORCH_CHECK_VALUE(wanted < devices.size(), "the device ", wanted, " of ", provider.name,
                    " was asked for, but it has ", devices.size());
  return devices[wanted];
}

// The accelerator on whose memory a plug-in works, if PyTorch has a name for it; others work on the
// CPU's or hide theirs.
std::optional<at::Device> accelerator_of(const OrtEpDevice* device) {
  const OrtMemoryInfo* memory = api().EpDevice_MemoryInfo(device, OrtDeviceMemoryType_DEFAULT);
  const auto found = memory == nullptr ? std::nullopt : find_device(memory);
  return found.has_value() && !found->is_cpu() ? found : std::nullopt;
}

void append_plugin(const Placement& place, const std::vector<const OrtEpDevice*>& devices) {
  const Provider& provider = place.provider;
  const OrtEpDevice* device = choose(devices, provider);
  StringDict texts = texts_of(provider);
  std::optional<c10::Stream> stream;
  if (const auto accelerator = accelerator_of(device); accelerator.has_value()) {
    require_usable(*accelerator);
    if (provider.name == kCuda || provider.name == kRocm) {
      stream = prepare(place, *accelerator, texts);
    } else if (names_stream(provider)) {
      stream = choose_stream(place, *accelerator);
    } else {
      claim(place, *accelerator, /*takes_stream=*/false);
    }
  }
  if (stream.has_value()) {
    texts.insert(kStreamOption, std::to_string(handle_of(*stream)));
  }
  const Arrays arrays(texts);
  check_status(api().SessionOptionsAppendExecutionProvider_V2(
      place.options, environment(), &device, 1, arrays.keys.data(), arrays.values.data(),
      arrays.keys.size()));
}

void append_named(OrtSessionOptions* options, const Provider& provider) {
  const Arrays arrays(provider.options);
  check_status(api().SessionOptionsAppendExecutionProvider(options, provider.name.c_str(),
                                                           arrays.keys.data(), arrays.values.data(),
                                                           arrays.keys.size()));
}

// A plug-in may have the name of a provider that a runtime can have built in.
template <typename Options, auto Create, auto Release>
bool is_built_in() {
  Options* created = nullptr;
  const StatusHandle refused((api().*Create)(&created));
  const std::unique_ptr<Options, Releaser<Release>> owned(created);
  return refused == nullptr;
}

void append(const Placement& place) {
  const std::string& name = place.provider.name;
  if (name == kCuda && is_built_in<OrtCUDAProviderOptionsV2, &OrtApi::CreateCUDAProviderOptions,
                                   &OrtApi::ReleaseCUDAProviderOptions>()) {
    return append_cuda(place);
  }
  if (name == "TensorrtExecutionProvider" &&
      is_built_in<OrtTensorRTProviderOptionsV2, &OrtApi::CreateTensorRTProviderOptions,
                  &OrtApi::ReleaseTensorRTProviderOptions>()) {
    return append_tensorrt(place);
  }
  if (name == kRocm && is_built_in<OrtROCMProviderOptions, &OrtApi::CreateROCMProviderOptions,
                                   &OrtApi::ReleaseROCMProviderOptions>()) {
    return append_rocm(place);
  }
  if (const auto plugin = ep_devices(name); !plugin.empty()) {
    return append_plugin(place, plugin);
  }
  if (name == "MIGraphXExecutionProvider") {
    return append_migraphx(place);
  }
  append_named(place.options, place.provider);
}

}  // namespace

std::vector<std::string> available_providers() {
  char** names = nullptr;
  int count = 0;
  check_status(api().GetAvailableProviders(&names, &count));
  std::vector<std::string> providers(names, names + count);
  check_status(api().ReleaseAvailableProviders(names, count));
  for (const OrtEpDevice* device : ep_devices()) {
    const std::string name = api().EpDevice_EpName(device);
    if (std::ranges::find(providers, name) == providers.end()) {
      providers.push_back(name);
    }
  }
  return providers;
}

std::optional<at::DeviceType> plugin_accelerator() {
  for (const OrtEpDevice* candidate : ep_devices()) {
    const auto device = accelerator_of(candidate);
    if (device.has_value() && c10::impl::hasDeviceGuardImpl(device->type())) {
      return device->type();
    }
  }
  return std::nullopt;
}

const OrtEpDevice* find_ep_device(const std::string& name, at::Device device) {
  const std::vector<const OrtEpDevice*> devices = ep_devices(name);
  const auto found = std::ranges::find_if(devices, [device](const OrtEpDevice* candidate) {
    return accelerator_of(candidate) == device;
  });
  return found == devices.end() ? nullptr : *found;
}

ProviderUse append_providers(OrtSessionOptions* options, const std::vector<Provider>& providers,
                             bool parallel) {
  const std::vector<std::string> offered = available_providers();
  for (const Provider& provider : providers) {
    TORCH_CHECK_VALUE(std::ranges::find(offered, provider.name) != offered.end(),
                      "the execution provider '", provider.name,
                      "' was asked for, but this ONNX Runtime (", runtime_version(),
                      ") offers only ", c10::Join(", ", offered));
    for (const auto& option : provider.options) {
      TORCH_CHECK_VALUE(!has_nul(option.key()) && !has_nul(option.value()), "the option '",
                        option.key(), "' with the value '", option.value(), "' was given to ",
                        provider.name,
                        ", and ONNX Runtime would cut it at its NUL: give text without one");
    }
  }
  ProviderUse use;
  for (const Provider& provider : providers) {
    if (provider.name == kCpuProvider) {
      break;  // every session has it as the last one, so what is asked for after it is never used
    }
    append({.options = options, .provider = provider, .parallel = parallel, .use = use});
  }
  return use;
}

}  // namespace ortdl
