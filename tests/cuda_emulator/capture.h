#pragma once

#include <cuda_runtime_api.h>

#include <map>
#include <memory>
#include <thread>
#include <vector>

#include "graph.h"
#include "stream.h"

/// \file
/// Graph capture: which stream records into which capture, and what is refused meanwhile.
namespace emulator {

class Capture : public std::enable_shared_from_this<Capture> {
 public:
  Capture(std::shared_ptr<const Stream> origin, cudaStreamCaptureMode mode);

  [[nodiscard]] unsigned long long id() const noexcept { return id_; }
  [[nodiscard]] bool valid() const noexcept { return valid_; }
  [[nodiscard]] bool active() const noexcept { return active_; }
  [[nodiscard]] cudaStreamCaptureMode mode() const noexcept { return mode_; }
  [[nodiscard]] int device() const noexcept { return origin_->device(); }
  [[nodiscard]] bool is_of_this_thread() const noexcept;

  /// The capture can only be ended now, and ends without a graph.
  void invalidate() noexcept { valid_ = false; }

  /// The handle that the graph has already, and keeps when the capture ends.
  [[nodiscard]] cudaGraph_t graph() const noexcept {
    return reinterpret_cast<cudaGraph_t>(graph_.get());
  }

  /// What the next work of `stream` will depend on.
  [[nodiscard]] const Nodes& ends(const Stream& stream) { return ends_[&stream]; }

  [[nodiscard]] cudaError_t add(const Stream& stream, Work work);

  /// Lets `stream` depend on `nodes` too. A stream that was not captured is from now on.
  [[nodiscard]] cudaError_t join(const std::shared_ptr<Stream>& stream, const Nodes& nodes);

  [[nodiscard]] cudaError_t finish(const Stream& stream, std::shared_ptr<Graph>& graph);

 private:
  void release_streams() noexcept;

  const unsigned long long id_;
  const cudaStreamCaptureMode mode_;
  const std::shared_ptr<const Stream> origin_;
  const std::thread::id thread_ = std::this_thread::get_id();
  bool valid_ = true;
  bool active_ = true;
  const std::shared_ptr<Graph> graph_ = std::make_shared<Graph>();
  std::map<const Stream*, Nodes> ends_;
  std::vector<std::shared_ptr<Stream>> joined_;
};

/// The error of a call that may wait for the device, if a capture forbids such calls now. The
/// capture is invalid then, as it is with CUDA.
[[nodiscard]] cudaError_t refuse_unsafe_call();

/// As refuse_unsafe_call; a stream that is being captured can't be waited for in any mode.
[[nodiscard]] cudaError_t refuse_stream_wait(const Stream& stream);

/// As refuse_stream_wait for all streams of `device`.
[[nodiscard]] cudaError_t refuse_device_wait(int device);

}  // namespace emulator
