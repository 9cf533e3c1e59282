#include "device.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <utility>

#include "call.h"
#include "capture.h"
#include "memory.h"
#include "stream.h"

namespace emulator {
namespace {

/// As the CUDA of the headers, whose number stands for driver and runtime alike.
constexpr int kVersion = CUDART_VERSION;
constexpr int kComputeCapability = 9;
constexpr int kProcessors = 4;
constexpr int kThreadsPerBlock = 1024;

thread_local int current = 0;

std::size_t setting(const char* name, std::size_t otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : std::stoull(text);
}

std::set<int>& contexts() {
  static auto& devices = *new std::set<int>;
  return devices;
}

/// The pairs of devices (from, to) between which peer access was enabled.
std::set<std::pair<int, int>>& peers() {
  static auto& pairs = *new std::set<std::pair<int, int>>;
  return pairs;
}

}  // namespace

int device_count() {
  static const int count = static_cast<int>(setting("CUDA_EMULATOR_DEVICES", 2));
  return count;
}

std::size_t device_memory() {
  static const std::size_t bytes = setting("CUDA_EMULATOR_MEMORY", std::size_t{4} << 30);
  return bytes;
}

int current_device() noexcept { return current; }

bool is_device(int device) { return device >= 0 && device < device_count(); }

bool has_context(int device) { return contexts().contains(device); }

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  return call("cudaGetDeviceCount", [&](Lock&) {
    *count = device_count();
    return *count > 0 ? cudaSuccess : cudaErrorNoDevice;
  });
}

cudaError_t cudaGetDevice(int* device) {
  return call("cudaGetDevice", [&](Lock&) {
    *device = current;
    return cudaSuccess;
  });
}

cudaError_t cudaSetDevice(int device) {
  return call("cudaSetDevice", [&](Lock&) {
    if (!is_device(device)) {
      return cudaErrorInvalidDevice;
    }
    current = device;
    contexts().insert(device);
    return cudaSuccess;
  });
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  return call("cudaGetDeviceProperties", [&](Lock&) {
    if (!is_device(device)) {
      return cudaErrorInvalidDevice;
    }
    *properties = {};
    std::snprintf(properties->name, sizeof properties->name, "Emulated CUDA device %d", device);
    properties->totalGlobalMem = device_memory();
    properties->major = kComputeCapability;
    properties->warpSize = 32;
    properties->multiProcessorCount = kProcessors;
    properties->maxThreadsPerBlock = kThreadsPerBlock;
    properties->maxThreadsPerMultiProcessor = 2 * kThreadsPerBlock;
    properties->sharedMemPerBlock = 48 << 10;
    properties->sharedMemPerBlockOptin = 227 << 10;
    properties->regsPerBlock = 65536;
    std::ranges::copy(std::array{kThreadsPerBlock, kThreadsPerBlock, 64},
                      properties->maxThreadsDim);
    std::ranges::copy(std::array{0x7fffffff, 0xffff, 0xffff}, properties->maxGridSize);
    properties->l2CacheSize = 1 << 20;
    properties->unifiedAddressing = 1;
    properties->pciBusID = device;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  return call("cudaDeviceGetAttribute", [&](Lock&) {
    if (!is_device(device)) {
      return cudaErrorInvalidDevice;
    }
    switch (attribute) {
      case cudaDevAttrComputeCapabilityMajor:
        *value = kComputeCapability;
        break;
      case cudaDevAttrMultiProcessorCount:
        *value = kProcessors;
        break;
      case cudaDevAttrMaxThreadsPerBlock:
        *value = kThreadsPerBlock;
        break;
      case cudaDevAttrUnifiedAddressing:
        *value = 1;
        break;
      default:
        *value = 0;
    }
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceGetPCIBusId(char* text, int size, int device) {
  return call("cudaDeviceGetPCIBusId", [&](Lock&) {
    std::snprintf(text, size, "0000:%02x:00.0", static_cast<unsigned>(device));
    return cudaSuccess;
  });
}

cudaError_t cudaDriverGetVersion(int* version) {
  return call("cudaDriverGetVersion", [&](Lock&) {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  return call("cudaRuntimeGetVersion", [&](Lock&) {
    *version = kVersion;
    return cudaSuccess;
  });
}

cudaError_t cudaGetLastError() {
  const cudaError_t error = last_error();
  forget_error();
  return error;
}

cudaError_t cudaPeekAtLastError() { return last_error(); }

cudaError_t cudaDeviceCanAccessPeer(int* can, int device, int peer) {
  return call("cudaDeviceCanAccessPeer", [&](Lock&) {
    if (!is_device(device) || !is_device(peer)) {
      return cudaErrorInvalidDevice;
    }
    *can = device != peer ? 1 : 0;
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned /*flags*/) {
  return call("cudaDeviceEnablePeerAccess", [&](Lock&) {
    if (!is_device(peer) || peer == current) {
      return cudaErrorInvalidDevice;
    }
    return peers().emplace(current, peer).second ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled;
  });
}

cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  return call("cudaMemGetInfo", [&](Lock&) {
    *total = device_memory();
    *free = *total - memory_in_use(current);
    return cudaSuccess;
  });
}

cudaError_t cudaDeviceSynchronize() {
  return call("cudaDeviceSynchronize", [&](Lock& lock) {
    if (const cudaError_t refusal = refuse_device_wait(current); refusal != cudaSuccess) {
      return refusal;
    }
    run_device(current, lock);
    return cudaSuccess;
  });
}

}  // extern "C"
