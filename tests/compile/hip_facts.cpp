// What the library takes for granted about HIP. It is only compiled: see check.py.
//
// PyTorch's build for ROCm calls its devices cuda, and its headers are the CUDA ones after a
// rewrite that replaces names. So what cuda_facts.cpp says of PyTorch has to hold with HIP's types
// too.

#include <ATen/dlpack.h>
#include <hip/hip_runtime_api.h>
#include <ortdl/ortdl.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace {

static_assert(std::is_pointer_v<hipStream_t>);
static_assert(std::is_pointer_v<hipEvent_t>);
static_assert(sizeof(c10::StreamId) == sizeof(hipStream_t));

// HIP numbers the default stream of a thread as CUDA does. The array API standard gives ROCm no
// such number: 0 is its default stream, and 1 and 2 mean nothing. See cuda_facts.cpp for the
// integer.
#define hipStream_t std::uintptr_t
static_assert(hipStreamPerThread == 2);
#undef hipStream_t

// What PyTorch calls of HIP in CUDA's place has CUDA's form.
static_assert(std::same_as<decltype(hipEventRecord), hipError_t(hipEvent_t, hipStream_t)>);
static_assert(
    std::same_as<decltype(hipStreamWaitEvent), hipError_t(hipStream_t, hipEvent_t, unsigned)>);
static_assert(
    std::same_as<decltype(hipStreamIsCapturing), hipError_t(hipStream_t, hipStreamCaptureStatus*)>);
static_assert(hipStreamCaptureStatusNone == 0);

static_assert(c10::DeviceType::HIP != c10::DeviceType::CUDA);
static_assert(kDLROCM == 10);
static_assert(kDLROCMHost == 11);

}  // namespace
