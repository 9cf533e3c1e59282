// What the library takes for granted about CUDA and about PyTorch's CUDA build. It is only
// compiled: see check.py.

// PyTorch's CPU build has all of the headers but the generated one that this leaves out.
#define C10_CUDA_NO_CMAKE_CONFIGURE_FILE

#include <ATen/dlpack.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/impl/CUDAGuardImpl.h>
#include <cuda_runtime_api.h>
#include <ortdl/ortdl.h>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace {

// A handle is a pointer: PyTorch's native handles, DLPack's streams and ONNX Runtime's
// user_compute_stream all carry it as one.
static_assert(std::is_pointer_v<cudaStream_t>);
static_assert(std::is_pointer_v<cudaEvent_t>);

// The array API standard's numbers of CUDA's default streams are the handles themselves. A pointer
// made from a number is no constant, so the handles' type gives way to an integer here.
#define cudaStream_t std::uintptr_t
static_assert(cudaStreamLegacy == 1);
static_assert(cudaStreamPerThread == 2);
#undef cudaStream_t

// PyTorch's name of a stream that it did not make is the handle.
static_assert(std::same_as<c10::StreamId, std::int64_t>);
static_assert(sizeof(c10::StreamId) == sizeof(cudaStream_t));
static_assert(std::same_as<decltype(c10::cuda::getStreamFromExternal(cudaStream_t{}, 0)),
                           c10::cuda::CUDAStream>);

// A stream of CUDA's is a stream of c10's and has a handle.
static_assert(std::convertible_to<c10::cuda::CUDAStream, c10::Stream>);
static_assert(std::convertible_to<c10::cuda::CUDAStream, cudaStream_t>);
static_assert(std::constructible_from<c10::cuda::CUDAStream, c10::Stream>);
static_assert(std::same_as<decltype(std::declval<c10::Stream>().native_handle()), void*>);

// Behind c10's guards, events and streams is the interface that CUDA implements.
static_assert(
    std::derived_from<c10::cuda::impl::CUDAGuardImpl, c10::impl::DeviceGuardImplInterface>);
static_assert(c10::cuda::impl::CUDAGuardImpl::static_type == at::kCUDA);

// The allocator by which the core knows PyTorch's own memory is CUDA's caching allocator.
static_assert(
    std::derived_from<c10::cuda::CUDACachingAllocator::CUDAAllocator, c10::DeviceAllocator>);

// DLPack's devices, and the question for a producer's stream.
static_assert(kDLCUDA == 2);
static_assert(kDLCUDAHost == 3);
static_assert(kDLCUDAManaged == 13);
static_assert(DLPACK_MAJOR_VERSION == 1);
static_assert(std::same_as<decltype(DLPackExchangeAPI::current_work_stream),
                           int (*)(DLDeviceType, std::int32_t, void**)>);

}  // namespace
