#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ortdl/memory.h>

#include <array>
#include <atomic>
#include <limits>

namespace ortdl {
namespace {

constexpr uint32_t kNvidia = 0x10DE;
constexpr uint32_t kAmd = 0x1002;

using MemoryInfoHandle = std::unique_ptr<OrtMemoryInfo, Releaser<&OrtApi::ReleaseMemoryInfo>>;

// PyTorch built for ROCm calls its devices cuda.
bool cuda_is_rocm() { return at::detail::getCUDAHooks().hasROCM(); }

bool is_rocm(at::Device device) { return device.is_hip() || cuda_is_rocm(); }

MemoryInfoHandle make_info(const char* name, int index) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo(name, OrtDeviceAllocator, index, OrtMemTypeDefault, &info));
  return MemoryInfoHandle(info);
}

const OrtMemoryInfo* cpu_info() {
  static const MemoryInfoHandle info = make_info("Cpu", 0);
  return info.get();
}

// The infos of every device of one kind, each made at its first use.
class DeviceInfos {
 public:
  explicit constexpr DeviceInfos(const char* name) noexcept : name_(name) {}

  const OrtMemoryInfo* get(at::DeviceIndex index) {
    TORCH_CHECK_VALUE(index >= 0, "memory of ", name_, " is on a device with an index: name it");
    auto& slot = slots_.at(static_cast<size_t>(index));
    const OrtMemoryInfo* known = slot.load(std::memory_order_acquire);
    if (known != nullptr) [[likely]] {
      return known;
    }
    MemoryInfoHandle made = make_info(name_, index);
    if (slot.compare_exchange_strong(known, made.get(), std::memory_order_acq_rel)) {
      return made.release();  // kept for the process: values refer to it
    }
    return known;
  }

 private:
  const char* name_;
  std::array<std::atomic<const OrtMemoryInfo*>, std::numeric_limits<at::DeviceIndex>::max() + 1>
      slots_{};
};

[[noreturn]] void throw_unknown_memory(const OrtMemoryInfo* info) {
  const char* name = nullptr;
  int index = 0;
  check_status(api().MemoryInfoGetName(info, &name));
  check_status(api().MemoryInfoGetId(info, &index));
  TORCH_CHECK_VALUE(false, "the value's memory is '", name, "' of device ", index, " (vendor ",
                    api().MemoryInfoGetVendorId(info),
                    "), and tensors are exchanged in CPU, CUDA and ROCm memory only: copy the "
                    "value to the CPU with onnxruntime first");
}

at::Device checked_device(at::DeviceType type, int64_t index) {
  TORCH_CHECK_VALUE(index >= 0 && index <= std::numeric_limits<at::DeviceIndex>::max(),
                    "a device of type ", c10::DeviceTypeName(type, /*lower_case=*/true),
                    " cannot have the index ", index);
  return {type, static_cast<at::DeviceIndex>(index)};
}

}  // namespace

at::DeviceType rocm_type() { return cuda_is_rocm() ? at::kCUDA : at::kHIP; }

bool holds_values(at::Device device) noexcept {
  return device.is_cpu() || device.is_cuda() || device.is_hip();
}

const OrtMemoryInfo* memory_info(at::Device device) {
  if (device.is_cpu()) [[likely]] {
    return cpu_info();
  }
  TORCH_CHECK_VALUE(holds_values(device), "a tensor on ", device,
                    " was given, and tensors are exchanged in CPU, CUDA and ROCm memory only: move "
                    "it with tensor.cpu() first");
  static DeviceInfos cuda("Cuda");
  static DeviceInfos hip("Hip");
  return (is_rocm(device) ? hip : cuda).get(device.index());
}

std::optional<at::Device> find_device(const OrtMemoryInfo* info) {
  OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
  api().MemoryInfoGetDeviceType(info, &type);
  if (type == OrtMemoryInfoDeviceType_CPU ||
      api().MemoryInfoGetDeviceMemType(info) == OrtDeviceMemoryType_HOST_ACCESSIBLE) {
    return at::kCPU;
  }
  const uint32_t vendor = api().MemoryInfoGetVendorId(info);
  int index = 0;
  check_status(api().MemoryInfoGetId(info, &index));
  if (type == OrtMemoryInfoDeviceType_GPU && vendor == kNvidia && !cuda_is_rocm()) {
    return checked_device(at::kCUDA, index);
  }
  if (type == OrtMemoryInfoDeviceType_GPU && vendor == kAmd) {
    return checked_device(rocm_type(), index);
  }
  return std::nullopt;
}

at::Device device_of(const OrtMemoryInfo* info) {
  const std::optional<at::Device> found = find_device(info);
  if (!found.has_value()) {
    throw_unknown_memory(info);
  }
  return *found;
}

at::Device device_of(DLDevice device) {
  if (is_host(device.device_type)) {
    TORCH_CHECK_VALUE(device.device_id == 0, "the DLPack tensor is on device type ",
                      static_cast<int>(device.device_type), " with the index ", device.device_id,
                      ", but host memory has the index 0");
    return at::kCPU;
  }
  const bool is_cuda = device.device_type == kDLCUDA || device.device_type == kDLCUDAManaged;
  TORCH_CHECK_VALUE((is_cuda && !cuda_is_rocm()) || device.device_type == kDLROCM,
                    "the DLPack tensor is on device type ", static_cast<int>(device.device_type),
                    " (index ", device.device_id,
                    "), for which this PyTorch has no device that values can live on: move it to "
                    "the CPU first");
  const at::Device found = checked_device(is_cuda ? at::kCUDA : rocm_type(), device.device_id);
  require_usable(found);
  return found;
}

DLDevice dlpack_device(at::Device device) noexcept {
  if (device.is_cpu()) {
    return {.device_type = kDLCPU, .device_id = 0};
  }
  return {.device_type = is_rocm(device) ? kDLROCM : kDLCUDA, .device_id = device.index()};
}

void require_usable(at::Device device) {
  if (device.is_cpu()) {
    return;
  }
  TORCH_CHECK_VALUE(c10::impl::hasDeviceGuardImpl(device.type()), "the device ", device,
                    " cannot be used, since this PyTorch was built without it: install a PyTorch "
                    "for that accelerator, or keep the elements on the CPU");
  TORCH_CHECK_VALUE(device.has_index(), "the device ", device, " has no index: name one, as ",
                    device, ":0");
  const int count = c10::impl::VirtualGuardImpl(device.type()).deviceCount();
  TORCH_CHECK_VALUE(device.index() < count, "the device ", device, " cannot be used: PyTorch sees ",
                    count, " such devices");
}

}  // namespace ortdl
