#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Stream.h>
#include <ortdl/memory.h>

#include <cstdint>

/// \file
/// Order between streams of accelerators, by events on the device: the host does not wait.
///
/// Every function leaves the current device and the current streams as they were, also when it
/// throws. What the accelerator's runtime reports arrives as PyTorch's exception.
namespace ortdl {

/// The stream that the calling thread uses now on `device`.
/// \throws c10::ValueError as `require_usable` does.
[[nodiscard]] c10::Stream current_stream(at::Device device);

/// The stream with the native handle `handle` (a cudaStream_t or hipStream_t); 0 is the default
/// stream. The handle's owner must keep the stream alive while it is in use.
[[nodiscard]] c10::Stream stream_of_handle(at::Device device, uintptr_t handle);

/// Whether `stream` came from `stream_of_handle`: somebody else decides how long it lives.
[[nodiscard]] inline bool is_external(c10::Stream stream) noexcept {
  return stream.id() != 0 && stream.id() % 2 == 0;
}

/// The handle of `stream` in its own runtime; 0 for the default stream.
[[nodiscard]] uintptr_t handle_of(c10::Stream stream);

/// Let all work queued on `later` from now on wait for the work queued on `earlier` until now.
///
/// While `earlier` is captured into a graph, `later` joins the capture.
/// \throws c10::Error if only `later` is being captured, since a graph cannot wait for what is not
/// in
///   it; or if only `earlier` is and `later` is a default stream, which cannot join.
void order(c10::Stream earlier, c10::Stream later);

/// Check that the host may wait for `stream`.
/// \throws c10::Error if `stream` is being captured, which a wait would break.
void require_no_capture(c10::Stream stream);

/// The same of what is current on both devices, for a copy between them, which makes the host wait.
/// The CPU has no streams.
void require_no_capture(at::Device from, at::Device to);

/// Let the host wait for the work queued on `stream`. Do not hold Python's GIL.
/// \throws as `require_no_capture` does.
void wait_on_host(c10::Stream stream);

/// Tell PyTorch's allocator that `stream` uses `memory`, so that it is not reused before that work
/// is done. \return False if the memory is somebody else's, who was told nothing.
[[nodiscard]] bool record_use(const c10::DataPtr& memory, c10::Stream stream);

}  // namespace ortdl
