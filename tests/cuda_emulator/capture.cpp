#include "capture.h"

#include <algorithm>
#include <utility>

namespace emulator {
namespace {

thread_local cudaStreamCaptureMode thread_mode = cudaStreamCaptureModeGlobal;

std::vector<std::weak_ptr<Capture>>& all() {
  static auto& captures = *new std::vector<std::weak_ptr<Capture>>;
  return captures;
}

std::vector<std::shared_ptr<Capture>> active_captures() {
  std::vector<std::shared_ptr<Capture>> active;
  for (const auto& weak : all()) {
    if (auto capture = weak.lock(); capture != nullptr && capture->active()) {
      active.push_back(std::move(capture));
    }
  }
  return active;
}

unsigned long long next_id() {
  static unsigned long long id = 0;
  return ++id;
}

/// Whether `capture` forbids unsafe calls to this thread, in whose mode cudaMalloc was asked for.
bool forbids_unsafe_calls(const Capture& capture) {
  if (thread_mode == cudaStreamCaptureModeRelaxed ||
      capture.mode() == cudaStreamCaptureModeRelaxed) {
    return false;
  }
  return capture.is_of_this_thread() || (thread_mode == cudaStreamCaptureModeGlobal &&
                                         capture.mode() == cudaStreamCaptureModeGlobal);
}

cudaStreamCaptureStatus status_of(const Stream& stream) {
  if (stream.capture == nullptr) {
    return cudaStreamCaptureStatusNone;
  }
  return stream.capture->valid() ? cudaStreamCaptureStatusActive
                                 : cudaStreamCaptureStatusInvalidated;
}

}  // namespace

Capture::Capture(std::shared_ptr<const Stream> origin, cudaStreamCaptureMode mode)
    : id_(next_id()), mode_(mode), origin_(std::move(origin)) {}

bool Capture::is_of_this_thread() const noexcept { return thread_ == std::this_thread::get_id(); }

cudaError_t Capture::add(const Stream& stream, Work work) {
  if (!valid_) {
    return cudaErrorStreamCaptureInvalidated;
  }
  Nodes& ends = ends_[&stream];
  graph_->nodes.push_back({std::move(work), ends});
  ends = {graph_->nodes.size() - 1};
  return cudaSuccess;
}

cudaError_t Capture::join(const std::shared_ptr<Stream>& stream, const Nodes& nodes) {
  if (!valid_) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (stream->capture == nullptr) {
    stream->capture = shared_from_this();
    joined_.push_back(stream);
  }
  ends_[stream.get()].insert(nodes.begin(), nodes.end());
  return cudaSuccess;
}

cudaError_t Capture::finish(const Stream& stream, std::shared_ptr<Graph>& graph) {
  if (&stream != origin_.get()) {
    invalidate();
    return cudaErrorStreamCaptureUnmatched;
  }
  if (mode_ != cudaStreamCaptureModeRelaxed && !is_of_this_thread()) {
    invalidate();
    return cudaErrorStreamCaptureWrongThread;
  }
  release_streams();
  if (!valid_) {
    return cudaErrorStreamCaptureInvalidated;
  }
  if (graph_->reachable(ends_[origin_.get()]).size() < graph_->nodes.size()) {
    invalidate();
    return cudaErrorStreamCaptureUnjoined;
  }
  graph = graph_;
  return cudaSuccess;
}

void Capture::release_streams() noexcept {
  active_ = false;
  for (const auto& stream : std::exchange(joined_, {})) {
    stream->capture.reset();
  }
}

cudaError_t refuse_unsafe_call() {
  for (const auto& capture : active_captures()) {
    if (forbids_unsafe_calls(*capture)) {
      capture->invalidate();
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return cudaSuccess;
}

cudaError_t refuse_stream_wait(const Stream& stream) {
  if (stream.capture != nullptr) {
    stream.capture->invalidate();
    return cudaErrorStreamCaptureUnsupported;
  }
  return refuse_unsafe_call();
}

cudaError_t refuse_device_wait(int device) {
  for (const auto& capture : active_captures()) {
    if (capture->device() == device) {
      capture->invalidate();
      return cudaErrorStreamCaptureUnsupported;
    }
  }
  return refuse_unsafe_call();
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return call_on(handle, "cudaStreamBeginCapture", [&](Lock&) {
    const auto stream = find_stream(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (is_legacy(stream)) {
      return cudaErrorStreamCaptureUnsupported;
    }
    if (stream->capture != nullptr) {
      return cudaErrorIllegalState;
    }
    const auto capture = std::make_shared<Capture>(stream, mode);
    std::erase_if(all(), [](const auto& weak) { return weak.expired(); });
    all().push_back(capture);
    return capture->join(stream, {});
  });
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* result) {
  return call_on(handle, "cudaStreamEndCapture", [&](Lock&) {
    *result = nullptr;
    const auto stream = find_stream(handle);
    if (stream == nullptr || stream->capture == nullptr) {
      return cudaErrorIllegalState;
    }
    std::shared_ptr<Graph> graph;
    // The capture is held here, as the stream lets go of it.
    const auto capture = stream->capture;
    const cudaError_t error = capture->finish(*stream, graph);
    if (error == cudaSuccess) {
      *result = add_graph(std::move(graph));
    }
    return error;
  });
}

cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return call_on(handle, "cudaStreamIsCapturing", [&](Lock&) {
    const auto stream = find_stream(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    *status = status_of(*stream);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                     unsigned long long* id, cudaGraph_t* graph,
                                     const cudaGraphNode_t** dependencies,
                                     const cudaGraphEdgeData** edges, std::size_t* count) {
  return call_on(handle, "cudaStreamGetCaptureInfo", [&](Lock&) {
    // The nodes that a capture has recorded so far can't be looked at here: there seem to be none.
    if (dependencies != nullptr) {
      *dependencies = nullptr;
    }
    if (edges != nullptr) {
      *edges = nullptr;
    }
    if (count != nullptr) {
      *count = 0;
    }
    const auto stream = find_stream(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    *status = status_of(*stream);
    if (id != nullptr && stream->capture != nullptr) {
      *id = stream->capture->id();
    }
    if (graph != nullptr && stream->capture != nullptr) {
      *graph = stream->capture->graph();
    }
    return cudaSuccess;
  });
}

cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  return call("cudaThreadExchangeStreamCaptureMode", [&](Lock&) {
    std::swap(*mode, thread_mode);
    return cudaSuccess;
  });
}

}  // extern "C"
