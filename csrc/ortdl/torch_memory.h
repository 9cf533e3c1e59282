#pragma once

#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <string>

/// \file
/// PyTorch's caching allocator in the form in which an execution provider takes one.
namespace ortdl {

/// Functions of the allocator that PyTorch uses for one type of device, as addresses in decimal:
/// the provider options `gpu_external_alloc`, `gpu_external_free` and `gpu_external_empty_cache`.
/// Memory comes from the device and the stream that are current in the calling thread.
struct TorchMemory {
  std::string allocate;
  std::string free;
  std::string empty_cache;
};

/// \throws c10::ValueError if PyTorch has no allocator for `type`.
[[nodiscard]] TorchMemory torch_memory(c10::DeviceType type);

/// Tell the allocator that `stream` uses the memory at `data`, which it gave through
/// `TorchMemory::allocate`; null is left alone.
void record_use(void* data, c10::Stream stream);

}  // namespace ortdl
