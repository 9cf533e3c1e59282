#include <cstring>
#include <memory>
#include <vector>

#include "capture.h"
#include "memory.h"
#include "stream.h"

/// \file
/// Copies and fills. As CUDA has it, the program's pageable memory is read before a copy returns,
/// and written before a copy returns.
namespace emulator {
namespace {

struct Rectangle {
  std::size_t pitch_to;
  std::size_t pitch_from;
  std::size_t width;
  std::size_t height;
};

void copy_rows(std::byte* to, const std::byte* from, const Rectangle& size) {
  for (std::size_t row = 0; row < size.height; ++row) {
    std::memmove(to + row * size.pitch_to, from + row * size.pitch_from, size.width);
  }
}

cudaError_t copy(void* to, const void* from, const Rectangle& size, cudaStream_t handle,
                 Lock& lock) {
  const auto stream = find_stream(handle);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  auto* target = static_cast<std::byte*>(to);
  const auto* source = static_cast<const std::byte*>(from);
  if (stream->capture != nullptr && (is_pageable(to) || is_pageable(from))) {
    return refuse_stream_wait(*stream);
  }
  Work work = [=](Lock&) { copy_rows(target, source, size); };
  if (is_pageable(from) && !is_pageable(to)) {
    const auto staged = std::make_shared<std::vector<std::byte>>(size.width * size.height);
    copy_rows(staged->data(), source, {size.width, size.pitch_from, size.width, size.height});
    work = [=](Lock&) {
      copy_rows(target, staged->data(), {size.pitch_to, size.width, size.width, size.height});
    };
  }
  const cudaError_t error = submit(stream, std::move(work));
  if (error == cudaSuccess && is_pageable(to)) {
    end_of(stream).reach(lock);
  }
  return error;
}

cudaError_t fill(void* memory, int value, std::size_t size, cudaStream_t handle) {
  const auto stream = find_stream(handle);
  if (stream == nullptr) {
    return cudaErrorInvalidResourceHandle;
  }
  return submit(stream, [=](Lock&) { std::memset(memory, value, size); });
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t size, cudaMemcpyKind /*kind*/,
                            cudaStream_t stream) {
  return call_on(stream, "cudaMemcpyAsync",
                 [&](Lock& lock) { return copy(to, from, {size, size, size, 1}, stream, lock); });
}

cudaError_t cudaMemcpyPeerAsync(void* to, int /*to_device*/, const void* from, int /*from_device*/,
                                std::size_t size, cudaStream_t stream) {
  return call_on(stream, "cudaMemcpyPeerAsync",
                 [&](Lock& lock) { return copy(to, from, {size, size, size, 1}, stream, lock); });
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t pitch_to, const void* from,
                              std::size_t pitch_from, std::size_t width, std::size_t height,
                              cudaMemcpyKind /*kind*/, cudaStream_t stream) {
  return call_on(stream, "cudaMemcpy2DAsync", [&](Lock& lock) {
    return copy(to, from, {pitch_to, pitch_from, width, height}, stream, lock);
  });
}

cudaError_t cudaMemcpy(void* to, const void* from, std::size_t size, cudaMemcpyKind /*kind*/) {
  return call("cudaMemcpy", [&](Lock& lock) {
    if (const cudaError_t refusal = refuse_unsafe_call(); refusal != cudaSuccess) {
      return refusal;
    }
    const cudaError_t error = copy(to, from, {size, size, size, 1}, cudaStreamLegacy, lock);
    if (error == cudaSuccess) {
      end_of(find_stream(cudaStreamLegacy)).reach(lock);
    }
    return error;
  });
}

cudaError_t cudaMemsetAsync(void* memory, int value, std::size_t size, cudaStream_t stream) {
  return call_on(stream, "cudaMemsetAsync",
                 [&](Lock&) { return fill(memory, value, size, stream); });
}

cudaError_t cudaMemset(void* memory, int value, std::size_t size) {
  return call("cudaMemset", [&](Lock&) {
    const cudaError_t refusal = refuse_unsafe_call();
    return refusal == cudaSuccess ? fill(memory, value, size, cudaStreamLegacy) : refusal;
  });
}

}  // extern "C"
