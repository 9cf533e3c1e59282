#include "memory.h"

#include <cstdlib>
#include <cstring>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "accelerator.h"
#include "recorder.h"

namespace fake_gpu {
namespace {

// As cudaMalloc aligns.
constexpr size_t kAlignment = 256;
constexpr int kFresh = 0xA5;

/// Blocks of host memory that stay for as long as the process does.
class HostBlocks {
 public:
  static HostBlocks& instance() {
    static auto& blocks = *new HostBlocks;
    return blocks;
  }

  void* allocate(size_t bytes) {
    const size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
    Block block(std::aligned_alloc(kAlignment, rounded));
    if (block == nullptr) {
      return nullptr;
    }
    std::memset(block.get(), kFresh, rounded);
    const std::lock_guard lock(mutex_);
    return blocks_.emplace_back(std::move(block)).get();
  }

 private:
  struct Free {
    void operator()(void* memory) const noexcept { std::free(memory); }
  };
  using Block = std::unique_ptr<void, Free>;

  std::mutex mutex_;
  std::vector<Block> blocks_;
};

/// Memory of the accelerator's if it has some, so that PyTorch knows it as the device's.
void* allocate_on(int device, size_t bytes) {
  if (const Accelerator* accelerator = Accelerator::find()) {
    if (void* memory = accelerator->allocate(device, bytes)) {
      std::memset(memory, kFresh, bytes);
      return memory;
    }
  }
  return HostBlocks::instance().allocate(bytes);
}

MemoryInfo copy_of(const OrtMemoryInfo& info) {
  const char* name = nullptr;
  check(ort().MemoryInfoGetName(&info, &name));
  int id = 0;
  check(ort().MemoryInfoGetId(&info, &id));
  OrtAllocatorType type = OrtDeviceAllocator;
  check(ort().MemoryInfoGetType(&info, &type));
  OrtMemoryInfo* copy = nullptr;
  check(ort().CreateMemoryInfo_V2(name, OrtMemoryInfoDeviceType_GPU,
                                  ort().MemoryInfoGetVendorId(&info), id,
                                  OrtDeviceMemoryType_DEFAULT, 0, type, &copy));
  return MemoryInfo(copy);
}

}  // namespace

Allocator::Allocator(const OrtMemoryInfo& info, ExternalSource source)
    : OrtAllocator{}, source_(source), info_(copy_of(info)) {
  check(ort().MemoryInfoGetId(&info, &device_));
  version = ORT_API_VERSION;
  Alloc = alloc;
  Reserve = alloc;
  Free = free;
  Info = get_info;
}

// ONNX Runtime takes null for failure, or for no bytes.
void* Allocator::alloc(OrtAllocator* self, size_t bytes) {
  if (bytes == 0) {
    return nullptr;
  }
  try {
    const auto& allocator = *static_cast<Allocator*>(self);
    const bool external = allocator.source_.given();
    void* memory =
        external ? allocator.source_.allocate(bytes) : allocate_on(allocator.device_, bytes);
    if (memory != nullptr) {
      Recorder::instance().allocated(
          "allocate " + std::to_string(bytes) + " bytes, " + place(allocator.device_), external);
    }
    return memory;
  } catch (const std::exception&) {
    return nullptr;
  }
}

void Allocator::free(OrtAllocator* self, void* memory) {
  if (memory == nullptr) {
    return;
  }
  const auto& allocator = *static_cast<Allocator*>(self);
  Recorder::instance().freed("free, " + place(allocator.device_));
  if (allocator.source_.given()) {
    allocator.source_.free(memory);
  }
}

const OrtMemoryInfo* Allocator::get_info(const OrtAllocator* self) {
  return static_cast<const Allocator*>(self)->info_.get();
}

int32_t ordinal_of(const OrtMemoryDevice* memory) noexcept {
  return ep_api().MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_GPU
             ? static_cast<int32_t>(ep_api().MemoryDevice_GetDeviceId(memory))
             : -1;
}

}  // namespace fake_gpu
