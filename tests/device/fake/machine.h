#pragma once

#include <c10/core/Stream.h>

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

/// \file
/// The fake accelerator's streams. Work waits in their queues until somebody waits for it: a
/// missing event shows, every time, as bytes that are not there yet.
namespace ortdl::test::fake {

inline constexpr c10::DeviceIndex kDevices = 4;

using Work = std::function<void()>;

struct Queue;

/// What is captured into a graph, and by which streams.
struct Capture {
  const Queue* origin;
  std::vector<Work> work;
  std::set<const Queue*> unjoined;  ///< streams whose work `origin` does not wait for yet
  bool open = true;
  bool broken = false;
};

/// One stream.
struct Queue {
  c10::DeviceIndex device;
  c10::StreamId id;  ///< 0, an odd number, or its own handle
  std::string name;  ///< for the trace
  bool alive = true;
  std::deque<Work> work;
  uint64_t queued = 0;
  uint64_t done = 0;
  std::shared_ptr<Capture> capture;
};

/// All that was queued on a stream until now.
struct Mark {
  Queue* queue;
  uint64_t position;
  std::shared_ptr<Capture> capture;
};

/// The streams of all devices. Safe from any thread.
///
/// As CUDA's, a stream that PyTorch made has an odd id, and that of any other is its handle, which
/// is even.
class Machine {
 public:
  /// Back to default streams only, after all work is done.
  void reset();

  [[nodiscard]] c10::StreamId make_pool_stream(c10::DeviceIndex device);
  /// A stream that is not PyTorch's. \return Its handle.
  [[nodiscard]] uintptr_t make_external_stream(c10::DeviceIndex device);
  void destroy_external_stream(uintptr_t handle);

  /// \throws c10::Error if there is no such stream, or not any more.
  [[nodiscard]] Queue& queue(c10::DeviceIndex device, c10::StreamId id);
  [[nodiscard]] Queue& queue(c10::Stream stream) {
    return queue(stream.device_index(), stream.id());
  }
  /// The stream with `handle`; with 0 the default stream of `device`.
  [[nodiscard]] Queue& queue_of_handle(uintptr_t handle, c10::DeviceIndex device);
  [[nodiscard]] static uintptr_t handle(const Queue& queue) noexcept {
    return queue.id == 0 ? 0 : reinterpret_cast<uintptr_t>(&queue);
  }

  void enqueue(Queue& queue, Work work);
  [[nodiscard]] Mark record(Queue& queue);
  /// Let what is queued on `later` from now on wait for `mark`; joins its capture.
  /// \throws c10::Error where a capture does not allow it.
  void wait(Queue& later, const Mark& mark);
  [[nodiscard]] bool is_done(const Mark& mark);
  /// Let the host wait. \throws c10::Error if it must not; the capture is broken then.
  void synchronize(Queue& queue);
  void synchronize(const Mark& mark);
  void synchronize_device(c10::DeviceIndex device);

  void begin_capture(c10::Stream stream);
  /// \return The work captured, in an order in which it may be done.
  /// \throws c10::Error if the capture is broken, or has streams that were not joined back.
  [[nodiscard]] std::vector<Work> end_capture(c10::Stream stream);
  [[nodiscard]] bool is_capturing(c10::Stream stream);

 private:
  Queue& add(c10::DeviceIndex device, c10::StreamId id, std::string name);
  void require_no_capture(const Queue& queue);
  void run_until(Queue& queue, uint64_t position);

  std::mutex mutex_;
  std::recursive_mutex running_;  // work runs under it, and may run more
  std::vector<std::unique_ptr<Queue>> queues_;
  std::array<int, kDevices> pool_{};
  std::array<int, kDevices> external_{};
};

}  // namespace ortdl::test::fake
