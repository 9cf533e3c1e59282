#include <cuda_runtime_api.h>

#include "device.h"
#include "stream.h"

/// \file
/// Kernels take their place in a stream's queue, and compute nothing there.
namespace emulator {
namespace {

cudaError_t launch(const char* name, cudaStream_t handle) {
  return call_on(handle, name, [&](Lock&) {
    const auto stream = find_stream(handle);
    if (stream == nullptr || stream->device() != current_device()) {
      return cudaErrorInvalidResourceHandle;
    }
    return submit(stream, [](Lock&) {});
  });
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaLaunchKernel(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                             void** /*arguments*/, std::size_t /*shared*/, cudaStream_t stream) {
  return launch("cudaLaunchKernel", stream);
}

/// What compiled launches call, under the same name in the trace.
cudaError_t __cudaLaunchKernel(cudaKernel_t /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                               void** /*arguments*/, std::size_t /*shared*/, cudaStream_t stream) {
  return launch("cudaLaunchKernel", stream);
}

cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration, const void* /*kernel*/,
                                void** /*arguments*/) {
  return launch("cudaLaunchKernel", configuration->stream);
}

cudaError_t cudaLaunchCooperativeKernel(const void* /*kernel*/, dim3 /*grid*/, dim3 /*block*/,
                                        void** /*arguments*/, std::size_t /*shared*/,
                                        cudaStream_t stream) {
  return launch("cudaLaunchKernel", stream);
}

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  return call("cudaGetKernel", [&](Lock&) {
    *kernel = static_cast<cudaKernel_t>(const_cast<void*>(function));
    return cudaSuccess;
  });
}

cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void* /*kernel*/) {
  return call("cudaFuncGetAttributes", [&](Lock&) {
    *attributes = {};
    attributes->maxThreadsPerBlock = 1024;
    attributes->numRegs = 32;
    attributes->binaryVersion = attributes->ptxVersion = 90;
    return cudaSuccess;
  });
}

cudaError_t cudaFuncSetAttribute(const void* /*kernel*/, cudaFuncAttribute /*attribute*/,
                                 int /*value*/) {
  return call("cudaFuncSetAttribute", [](Lock&) { return cudaSuccess; });
}

cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int* blocks, const void* /*kernel*/, int /*size*/, std::size_t /*shared*/, unsigned /*flags*/) {
  return call("cudaOccupancyMaxActiveBlocksPerMultiprocessor", [&](Lock&) {
    *blocks = 2;
    return cudaSuccess;
  });
}

}  // extern "C"
