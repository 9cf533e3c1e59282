#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "fake_gpu_ep.h"

namespace fake_gpu {

/// What the provider did, in this process. Safe from any thread.
class Recorder {
 public:
  static Recorder& instance();

  /// Add a line to the log and one to a counter, if there is one for it.
  void log(std::string line, uint64_t FakeGpuEpCounters::* counter = nullptr);

  void compute(const FakeGpuEpCompute& compute);
  void allocated(std::string line, bool external);
  void freed(std::string line);

  [[nodiscard]] FakeGpuEpCounters counters() const;
  [[nodiscard]] std::vector<FakeGpuEpCompute> computes() const;
  [[nodiscard]] std::string text() const;
  void reset();

 private:
  friend class PendingMark;

  mutable std::mutex mutex_;
  std::string text_;
  FakeGpuEpCounters counters_{};
  std::vector<FakeGpuEpCompute> computes_;
  std::atomic<uint64_t> pending_ = 0;
};

/// Counts one piece of work as pending while it lives.
class PendingMark {
 public:
  PendingMark() noexcept { ++Recorder::instance().pending_; }
  ~PendingMark() { --Recorder::instance().pending_; }
  PendingMark(const PendingMark&) = delete;
  PendingMark& operator=(const PendingMark&) = delete;
};

/// "device 1", or "host" for -1.
std::string place(int32_t device);

/// An address or a stream's handle, as the log has it.
std::string text_of(const void* pointer);

}  // namespace fake_gpu
