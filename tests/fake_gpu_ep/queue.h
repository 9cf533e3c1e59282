#pragma once

#include <memory>

#include "accelerator.h"

namespace fake_gpu {

/// Where the work of one stream waits until somebody asks for it.
class Queue {
 public:
  explicit Queue(int device) noexcept : device_(device) {}
  virtual ~Queue() = default;
  Queue(const Queue&) = delete;
  Queue& operator=(const Queue&) = delete;

  [[nodiscard]] int device() const noexcept { return device_; }

  /// What stands for the stream at ONNX Runtime, and with an accelerator at PyTorch.
  [[nodiscard]] virtual void* handle() const noexcept = 0;

  /// Add work behind what is there. Nothing runs yet.
  void submit(Work work);

  /// Run all of it: the host waits.
  virtual void synchronize() = 0;

 private:
  virtual void enqueue(Work work) = 0;

  int device_;
};

/// The queue of a new stream of `device`: of the accelerator if it makes streams, else our own.
std::shared_ptr<Queue> create_queue(int device);

/// The queue of the stream behind `handle`, ours or one of the accelerator's.
/// \throws std::runtime_error if it is neither.
std::shared_ptr<Queue> queue_of(int device, void* handle);

/// Run what waits in our own queues: of `device`, or of all for -1.
void run_own_queues(int device = -1);

}  // namespace fake_gpu
