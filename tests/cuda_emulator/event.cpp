#include <memory>
#include <optional>

#include "capture.h"
#include "device.h"
#include "stream.h"

/// \file
/// Events. A recording marks a place in a stream's queue, or in a capture.
namespace emulator {
namespace {

struct Event {
  int device;
  /// Where it was recorded last, unless that was in a capture or never.
  std::optional<Point> point;
  /// The capture that it was recorded in last, and what its waiters will depend on there.
  std::shared_ptr<Capture> capture;
  Nodes ends;
};

Handles<cudaEvent_t, Event>& events() {
  static auto& handles = *new Handles<cudaEvent_t, Event>;
  return handles;
}

cudaError_t create(cudaEvent_t* handle) {
  *handle = events().add(std::make_shared<Event>(Event{current_device(), {}, {}, {}}));
  return cudaSuccess;
}

cudaError_t record(cudaEvent_t handle, cudaStream_t stream_handle) {
  const auto event = events().find(handle);
  const auto stream = find_stream(stream_handle);
  if (event == nullptr || stream == nullptr || event->device != stream->device()) {
    return cudaErrorInvalidResourceHandle;
  }
  if (stream->capture == nullptr) {
    *event = {event->device, end_of(stream), {}, {}};
    return cudaSuccess;
  }
  if (!stream->capture->valid()) {
    return cudaErrorStreamCaptureInvalidated;
  }
  *event = {event->device, {}, stream->capture, stream->capture->ends(*stream)};
  return cudaSuccess;
}

/// The error of what would let work outside a capture and work in it depend on each other.
cudaError_t refuse(const std::shared_ptr<Capture>& capture, cudaError_t error) {
  capture->invalidate();
  return error;
}

cudaError_t wait_captured(const std::shared_ptr<Stream>& stream, const Event& event) {
  if (!event.capture->active()) {
    return cudaErrorCapturedEvent;
  }
  if (is_legacy(stream)) {
    return refuse(event.capture, cudaErrorStreamCaptureImplicit);
  }
  if (stream->capture != nullptr && stream->capture != event.capture) {
    stream->capture->invalidate();
    return refuse(event.capture, cudaErrorStreamCaptureMerge);
  }
  return event.capture->join(stream, event.ends);
}

cudaError_t wait(const std::shared_ptr<Stream>& stream, const Event& event) {
  if (event.capture != nullptr) {
    return wait_captured(stream, event);
  }
  if (stream->capture != nullptr) {
    return event.point ? refuse(stream->capture, cudaErrorStreamCaptureIsolation) : cudaSuccess;
  }
  if (!event.point || event.point->reached()) {
    return cudaSuccess;
  }
  return submit(stream, [point = *event.point](Lock& lock) { point.reach(lock); });
}

/// Runs `body` with an event that the host may ask or wait for.
template <class Body>
cudaError_t with_event(const char* name, cudaEvent_t handle, Body&& body) {
  return call(name, [&](Lock& lock) {
    const auto event = events().find(handle);
    if (event == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (event->capture != nullptr) {
      return cudaErrorCapturedEvent;
    }
    const cudaError_t refusal = refuse_unsafe_call();
    return refusal == cudaSuccess ? body(*event, lock) : refusal;
  });
}

}  // namespace
}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return call("cudaEventCreate", [&](Lock&) { return create(event); });
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned /*flags*/) {
  return call("cudaEventCreateWithFlags", [&](Lock&) { return create(event); });
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  return call("cudaEventDestroy", [&](Lock&) {
    return events().remove(event) != nullptr ? cudaSuccess : cudaErrorInvalidResourceHandle;
  });
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return call_on(stream, "cudaEventRecord", [&](Lock&) { return record(event, stream); });
}

/// PyTorch uses both functions: tests need not know which one where.
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  return call_on(stream, "cudaEventRecord", [&](Lock&) {
    return flags == cudaEventRecordDefault ? record(event, stream) : cudaErrorNotSupported;
  });
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream_handle, cudaEvent_t event_handle,
                                unsigned flags) {
  return call_on(stream_handle, "cudaStreamWaitEvent", [&](Lock&) {
    const auto stream = find_stream(stream_handle);
    const auto event = events().find(event_handle);
    if (stream == nullptr || event == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    return flags == cudaEventWaitDefault ? wait(stream, *event) : cudaErrorNotSupported;
  });
}

cudaError_t cudaEventQuery(cudaEvent_t handle) {
  return with_event("cudaEventQuery", handle, [](const Event& event, Lock&) {
    return !event.point || event.point->reached() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle) {
  return with_event("cudaEventSynchronize", handle, [](const Event& event, Lock& lock) {
    // A copy, as the program may record the event again while the lock is free.
    if (const auto point = event.point) {
      point->reach(lock);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start, cudaEvent_t end) {
  return with_event("cudaEventElapsedTime", start, [&](const Event& first, Lock&) {
    const auto second = events().find(end);
    if (second == nullptr || !first.point || !second->point) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!first.point->reached() || !second->point->reached()) {
      return cudaErrorNotReady;
    }
    *milliseconds = 0;
    return cudaSuccess;
  });
}

}  // extern "C"
