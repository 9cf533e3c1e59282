#include <ortdl/memory.h>

namespace ortdl {
namespace {

const OrtMemoryInfo* make_cpu_info() {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  return info;
}

[[noreturn]] void throw_unknown_memory(const OrtMemoryInfo* info) {
  const char* name = nullptr;
  int index = 0;
  check_status(api().MemoryInfoGetName(info, &name));
  check_status(api().MemoryInfoGetId(info, &index));
  TORCH_CHECK_VALUE(false, "the value's memory is '", name, "' of device ", index,
                    ", and this version of ortdl_torch exchanges CPU memory only: copy the value "
                    "to the CPU with onnxruntime first");
}

}  // namespace

const OrtMemoryInfo* memory_info(at::Device device) {
  TORCH_CHECK_VALUE(device.is_cpu(), "a tensor on ", device,
                    " was given, and this version of ortdl_torch exchanges CPU memory only: move "
                    "it with tensor.cpu() first");
  static const OrtMemoryInfo* const cpu = make_cpu_info();
  return cpu;
}

at::Device device_of(const OrtMemoryInfo* info) {
  OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
  api().MemoryInfoGetDeviceType(info, &type);
  if (type != OrtMemoryInfoDeviceType_CPU &&
      api().MemoryInfoGetDeviceMemType(info) != OrtDeviceMemoryType_HOST_ACCESSIBLE) {
    throw_unknown_memory(info);
  }
  return at::kCPU;
}

}  // namespace ortdl
