#include <c10/core/CachingDeviceAllocator.h>
#include <ortdl/stream.h>
#include <ortdl/torch_memory.h>

namespace ortdl {
namespace {

template <typename Function>
std::string address_of(Function* function) {
  return std::to_string(reinterpret_cast<uintptr_t>(function));
}

// ONNX Runtime turns null into an error of its own; an exception must not reach it.
template <c10::DeviceType Type>
void* allocate(size_t bytes) noexcept {
  try {
    return c10::GetAllocator(Type)->raw_allocate(bytes);
  } catch (const c10::Error& error) {
    TORCH_WARN("PyTorch's allocator gave ONNX Runtime no memory (", bytes,
               " bytes): ", error.what_without_backtrace());
    return nullptr;
  }
}

template <c10::DeviceType Type>
void deallocate(void* memory) noexcept {
  try {
    c10::GetAllocator(Type)->raw_deallocate(memory);
  } catch (const c10::Error& error) {
    TORCH_WARN("PyTorch's allocator did not take memory back from ONNX Runtime: ",
               error.what_without_backtrace());
  }
}

template <c10::DeviceType Type>
void empty_cache() noexcept {
  try {
    c10::getDeviceAllocator(Type)->emptyCache();
  } catch (const c10::Error& error) {
    TORCH_WARN("PyTorch's allocator did not empty its cache for ONNX Runtime: ",
               error.what_without_backtrace());
  }
}

template <c10::DeviceType Type>
TorchMemory functions() {
  return {.allocate = address_of(allocate<Type>),
          .free = address_of(deallocate<Type>),
          .empty_cache = address_of(empty_cache<Type>)};
}

}  // namespace

TorchMemory torch_memory(c10::DeviceType type) {
  return type == c10::kHIP ? functions<c10::kHIP>() : functions<c10::kCUDA>();
}

void record_use(void* data, c10::Stream stream) {
  if (data == nullptr) {
    return;
  }
  // The allocator is asked by a pointer that owns; this one gives its ownership up again.
  struct Borrowed {
    c10::DataPtr pointer;
    ~Borrowed() { static_cast<void>(pointer.release_context()); }
  } const borrowed{
      {data, data, c10::GetAllocator(stream.device_type())->raw_deleter(), stream.device()}};
  static_cast<void>(record_use(borrowed.pointer, stream));
}

}  // namespace ortdl
