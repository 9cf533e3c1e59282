#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <string>

#include "call.h"
#include "device.h"
#include "memory.h"

/// \file
/// The few functions of the driver's API that PyTorch calls itself. It finds them by name through
/// the runtime's API, or in libcuda.so.1, as which this library gives itself out.
namespace emulator {
namespace {

CUresult not_supported() { return CUDA_ERROR_NOT_SUPPORTED; }

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

CUresult cuInit(unsigned /*flags*/) { return CUDA_SUCCESS; }

CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int* count) {
  *count = device_count();
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice* device, int index) {
  *device = index;
  return is_device(index) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute /*attribute*/, CUdevice device) {
  *value = 0;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  const Lock lock = lock_machine();
  *flags = 0;
  *active = has_context(device) ? 1 : 0;
  return is_device(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

CUresult cuCtxGetCurrent(CUcontext* context) {
  // Never followed by anybody: it only has to differ from device to device.
  *context = reinterpret_cast<CUcontext>(static_cast<std::uintptr_t>(1 + current_device()));
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr* start, std::size_t* size, CUdeviceptr address) {
  const Lock lock = lock_machine();
  const Block* block = find_block(reinterpret_cast<const void*>(address));
  if (block == nullptr) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (start != nullptr) {
    *start = reinterpret_cast<CUdeviceptr>(block->start);
  }
  if (size != nullptr) {
    *size = block->size;
  }
  return CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult /*error*/, const char** text) {
  *text = "an error of the CUDA emulator";
  return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult /*error*/, const char** text) {
  *text = "CUDA_EMULATOR_ERROR";
  return CUDA_SUCCESS;
}

cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function,
                                             unsigned /*version*/, unsigned long long /*flags*/,
                                             cudaDriverEntryPointQueryResult* result) {
  return call("cudaGetDriverEntryPointByVersion", [&](Lock&) {
    static const std::map<std::string, void*> known = {
        {"cuCtxGetCurrent", reinterpret_cast<void*>(cuCtxGetCurrent)},
        {"cuDeviceGet", reinterpret_cast<void*>(cuDeviceGet)},
        {"cuDeviceGetAttribute", reinterpret_cast<void*>(cuDeviceGetAttribute)},
        {"cuGetErrorString", reinterpret_cast<void*>(cuGetErrorString)},
        {"cuMemGetAddressRange", reinterpret_cast<void*>(cuMemGetAddressRange)},
    };
    const auto found = known.find(name);
    *function = found == known.end() ? reinterpret_cast<void*>(not_supported) : found->second;
    if (result != nullptr) {
      *result = cudaDriverEntryPointSuccess;
    }
    return cudaSuccess;
  });
}

}  // extern "C"
