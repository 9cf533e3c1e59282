#include "memory.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>

#include "call.h"
#include "capture.h"
#include "device.h"
#include "stream.h"

namespace emulator {
namespace {

constexpr std::size_t kAlignment = 512;
/// What nobody has written yet reads as this, and not as a lucky zero.
constexpr int kFresh = 0xA5;

struct Free {
  void operator()(std::byte* memory) const noexcept { std::free(memory); }
};

struct Allocation {
  Block block;
  /// Null for memory that the program registered: that stays its own.
  std::unique_ptr<std::byte, Free> owner;
};

std::map<std::byte*, Allocation, std::less<>>& allocations() {
  static auto& all = *new std::map<std::byte*, Allocation, std::less<>>;
  return all;
}

cudaError_t allocate(void** result, std::size_t size, cudaMemoryType type) {
  const int device = current_device();
  if (type == cudaMemoryTypeDevice && size > device_memory() - memory_in_use(device)) {
    return cudaErrorMemoryAllocation;
  }
  const std::size_t rounded = (size + kAlignment - 1) / kAlignment * kAlignment;
  std::unique_ptr<std::byte, Free> owner(
      static_cast<std::byte*>(std::aligned_alloc(kAlignment, rounded)));
  if (owner == nullptr) {
    return cudaErrorMemoryAllocation;
  }
  std::memset(owner.get(), kFresh, size);
  std::byte* start = owner.get();
  allocations().emplace(start, Allocation{{start, size, device, type}, std::move(owner)});
  *result = start;
  return cudaSuccess;
}

/// Frees what `type` says. What is still queued may use the memory, so it runs first.
cudaError_t release(void* memory, cudaMemoryType type, Lock& lock) {
  if (memory == nullptr) {
    return cudaSuccess;
  }
  const auto known = [&] { return allocations().find(static_cast<std::byte*>(memory)); };
  if (known() == allocations().end() || known()->second.block.type != type) {
    return cudaErrorInvalidValue;
  }
  for (int device = 0; device < device_count(); ++device) {
    run_device(device, lock);
  }
  allocations().erase(known());
  return cudaSuccess;
}

/// Calls that may wait for the device are refused while a capture forbids that.
template <class Body>
cudaError_t unless_captured(Body&& body) {
  const cudaError_t refusal = refuse_unsafe_call();
  return refusal == cudaSuccess ? body() : refusal;
}

}  // namespace

const Block* find_block(const void* address) {
  const auto after = allocations().upper_bound(static_cast<std::byte*>(const_cast<void*>(address)));
  if (after == allocations().begin()) {
    return nullptr;
  }
  const Block& block = std::prev(after)->second.block;
  return static_cast<const std::byte*>(address) < block.start + block.size ? &block : nullptr;
}

bool is_pageable(const void* address) { return find_block(address) == nullptr; }

std::size_t memory_in_use(int device) {
  std::size_t sum = 0;
  for (const auto& [start, allocation] : allocations()) {
    if (allocation.block.type == cudaMemoryTypeDevice && allocation.block.device == device) {
      sum += allocation.block.size;
    }
  }
  return sum;
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaMalloc(void** result, std::size_t size) {
  return call("cudaMalloc", [&](Lock&) {
    return unless_captured([&] { return allocate(result, size, cudaMemoryTypeDevice); });
  });
}

cudaError_t cudaFree(void* memory) {
  return call("cudaFree", [&](Lock& lock) {
    return unless_captured([&] { return release(memory, cudaMemoryTypeDevice, lock); });
  });
}

cudaError_t cudaHostAlloc(void** result, std::size_t size, unsigned /*flags*/) {
  return call("cudaHostAlloc", [&](Lock&) {
    return unless_captured([&] { return allocate(result, size, cudaMemoryTypeHost); });
  });
}

cudaError_t cudaMallocHost(void** result, std::size_t size) {
  return call("cudaMallocHost", [&](Lock&) {
    return unless_captured([&] { return allocate(result, size, cudaMemoryTypeHost); });
  });
}

cudaError_t cudaFreeHost(void* memory) {
  return call("cudaFreeHost", [&](Lock& lock) {
    return unless_captured([&] { return release(memory, cudaMemoryTypeHost, lock); });
  });
}

cudaError_t cudaHostRegister(void* memory, std::size_t size, unsigned /*flags*/) {
  return call("cudaHostRegister", [&](Lock&) {
    if (!is_pageable(memory)) {
      return cudaErrorHostMemoryAlreadyRegistered;
    }
    auto* start = static_cast<std::byte*>(memory);
    const Block block{start, size, current_device(), cudaMemoryTypeHost};
    allocations().emplace(start, Allocation{block, nullptr});
    return cudaSuccess;
  });
}

cudaError_t cudaHostUnregister(void* memory) {
  return call("cudaHostUnregister", [&](Lock&) {
    const auto known = allocations().find(static_cast<std::byte*>(memory));
    if (known == allocations().end() || known->second.owner != nullptr) {
      return cudaErrorHostMemoryNotRegistered;
    }
    allocations().erase(known);
    return cudaSuccess;
  });
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  return call("cudaPointerGetAttributes", [&](Lock&) {
    *attributes = {};
    const Block* block = find_block(address);
    if (block == nullptr) {
      attributes->type = cudaMemoryTypeUnregistered;
      attributes->device = cudaInvalidDeviceId;
      attributes->hostPointer = const_cast<void*>(address);
      return cudaSuccess;
    }
    attributes->type = block->type;
    attributes->device = block->device;
    attributes->devicePointer = const_cast<void*>(address);
    if (block->type == cudaMemoryTypeHost) {
      attributes->hostPointer = const_cast<void*>(address);
    }
    return cudaSuccess;
  });
}

}  // extern "C"
