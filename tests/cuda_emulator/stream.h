#pragma once

#include <cuda_runtime_api.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "call.h"

/// \file
/// Streams: queues of work that runs only when somebody waits for it.
namespace emulator {

class Capture;

/// What a stream was asked to do. It may let go of the lock meanwhile.
using Work = std::function<void(Lock&)>;

class Stream {
 public:
  Stream(int device, bool blocking) : device_(device), blocking_(blocking) {}

  [[nodiscard]] int device() const noexcept { return device_; }

  /// Whether it keeps order with the device's legacy default stream without being told.
  [[nodiscard]] bool blocking() const noexcept { return blocking_; }

  [[nodiscard]] std::size_t pending() const noexcept { return queue_.size(); }

  /// The number of the newest work. Work runs in the order of its numbers.
  [[nodiscard]] std::uint64_t newest() const noexcept { return newest_; }

  [[nodiscard]] bool done(std::uint64_t number) const noexcept { return done_ >= number; }

  void push(Work work);

  /// Runs the work up to `number`, and nothing behind it. Another thread that runs it is awaited.
  void run_until(std::uint64_t number, Lock& lock);

  /// The capture that records the stream's work instead of running it, or null.
  std::shared_ptr<Capture> capture;

 private:
  const int device_;
  const bool blocking_;
  std::deque<Work> queue_;
  std::uint64_t newest_ = 0;
  std::uint64_t done_ = 0;
  bool running_ = false;
  std::condition_variable changed_;
};

/// A place in a stream's queue: that is all that a recorded event is.
struct Point {
  std::shared_ptr<Stream> stream;
  std::uint64_t number;

  [[nodiscard]] bool reached() const noexcept { return stream->done(number); }
  void reach(Lock& lock) const { stream->run_until(number, lock); }
};

[[nodiscard]] inline Point end_of(std::shared_ptr<Stream> stream) {
  const std::uint64_t newest = stream->newest();
  return {std::move(stream), newest};
}

/// The stream behind a handle; null if there is none. 0, 1 and 2 are default streams of the
/// current device: 0 and 1 the legacy one, 2 the calling thread's.
[[nodiscard]] std::shared_ptr<Stream> find_stream(cudaStream_t handle);

[[nodiscard]] bool is_legacy(const std::shared_ptr<Stream>& stream);

/// Queues `work` on `stream`, after what the default stream's rules put before it; or records it,
/// if the stream is being captured.
[[nodiscard]] cudaError_t submit(const std::shared_ptr<Stream>& stream, Work work);

/// Runs all that is queued on `device`.
void run_device(int device, Lock& lock);

}  // namespace emulator
