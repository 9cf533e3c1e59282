#ifndef FAKE_GPU_EP_H_
#define FAKE_GPU_EP_H_

#include <stddef.h>
#include <stdint.h>

/// \file
/// What the fake GPU execution provider did, for tests: plain C, for ctypes and dlsym.
///
/// All of it counts for the whole process, over every registration, device and session, and may be
/// called from any thread. No GPU is involved: the devices are emulated.

#if defined(__cplusplus)
extern "C" {
#define FAKE_GPU_EP_NOEXCEPT noexcept
#else
#define FAKE_GPU_EP_NOEXCEPT
#endif
#define FAKE_GPU_EP_API __attribute__((visibility("default")))

/// Counts since the last `fake_gpu_ep_reset()`, but for the two that say what is there now.
typedef struct FakeGpuEpCounters {
  uint64_t host_to_device;     ///< tensors copied from host to device memory
  uint64_t device_to_host;     ///< tensors copied from device to host memory
  uint64_t device_to_device;   ///< tensors copied within a device or between two
  uint64_t computes;           ///< kernels that were asked for, run or not
  uint64_t allocations;        ///< blocks given out, from whatever source
  uint64_t external;           ///< those of them that `gpu_external_alloc` gave
  uint64_t stream_waits;       ///< host waits for a stream: ends of runs, notifications, syncs
  uint64_t allocations_alive;  ///< blocks not freed by ONNX Runtime, now
  uint64_t pending;            ///< kernels, copies and marks that wait in some stream, now
} FakeGpuEpCounters;

/// A tensor as a kernel saw it. `device` is -1 in host memory.
typedef struct FakeGpuEpTensor {
  const void* data;
  int32_t device;
} FakeGpuEpTensor;

/// One kernel that was asked for.
typedef struct FakeGpuEpCompute {
  char op[16];           ///< "Identity", "Add", "Mul" or "MatMul"
  int32_t device;        ///< the device of the session
  uint32_t input_count;  ///< how many of `inputs` are set, in the node's order
  void* stream;          ///< the handle of the stream it went to
  FakeGpuEpTensor inputs[2];
  FakeGpuEpTensor output;
} FakeGpuEpCompute;

/// Fills `counters`.
FAKE_GPU_EP_API void fake_gpu_ep_counters(FakeGpuEpCounters* counters) FAKE_GPU_EP_NOEXCEPT;

/// Fills `compute` with the kernel number `index` since the last reset, the oldest being 0.
/// \return 1, or 0 if there were not so many.
FAKE_GPU_EP_API int fake_gpu_ep_compute(size_t index,
                                        FakeGpuEpCompute* compute) FAKE_GPU_EP_NOEXCEPT;

/// Fills `compute` with the newest kernel since the last reset.
/// \return 1, or 0 if there was none.
FAKE_GPU_EP_API int fake_gpu_ep_last_compute(FakeGpuEpCompute* compute) FAKE_GPU_EP_NOEXCEPT;

/// Writes what happened since the last reset as text, one event a line, oldest first.
///
/// At most `size` bytes are written, a terminating zero included.
/// \return The bytes that the whole text takes, without the zero.
FAKE_GPU_EP_API size_t fake_gpu_ep_log(char* text, size_t size) FAKE_GPU_EP_NOEXCEPT;

/// Forgets all that was counted and logged. Memory and pending work stay as they are.
FAKE_GPU_EP_API void fake_gpu_ep_reset(void) FAKE_GPU_EP_NOEXCEPT;

/// Runs all that waits in the provider's own queues; counts as no stream wait. Work that was put
/// on an accelerator's streams is the accelerator's, which has its own way to wait.
FAKE_GPU_EP_API void fake_gpu_ep_run_pending(void) FAKE_GPU_EP_NOEXCEPT;

#if defined(__cplusplus)
}
#endif

#endif
