#include "recorder.h"

#include <cstdio>
#include <utility>

namespace fake_gpu {

Recorder& Recorder::instance() {
  // Never destroyed: deferred work may end after the statics of this library have.
  static auto& recorder = *new Recorder;
  return recorder;
}

void Recorder::log(std::string line, uint64_t FakeGpuEpCounters::* counter) {
  const std::lock_guard lock(mutex_);
  text_ += std::move(line) + '\n';
  if (counter != nullptr) {
    ++(counters_.*counter);
  }
}

void Recorder::compute(const FakeGpuEpCompute& compute) {
  log("compute " + std::string(compute.op) + ", " + place(compute.device) + ", stream " +
          text_of(compute.stream),
      &FakeGpuEpCounters::computes);
  const std::lock_guard lock(mutex_);
  computes_.push_back(compute);
}

void Recorder::allocated(std::string line, bool external) {
  log(std::move(line), &FakeGpuEpCounters::allocations);
  const std::lock_guard lock(mutex_);
  ++counters_.allocations_alive;
  counters_.external += external ? 1 : 0;
}

void Recorder::freed(std::string line) {
  log(std::move(line));
  const std::lock_guard lock(mutex_);
  --counters_.allocations_alive;
}

FakeGpuEpCounters Recorder::counters() const {
  const std::lock_guard lock(mutex_);
  FakeGpuEpCounters now = counters_;
  now.pending = pending_;
  return now;
}

std::vector<FakeGpuEpCompute> Recorder::computes() const {
  const std::lock_guard lock(mutex_);
  return computes_;
}

std::string Recorder::text() const {
  const std::lock_guard lock(mutex_);
  return text_;
}

void Recorder::reset() {
  const std::lock_guard lock(mutex_);
  text_.clear();
  computes_.clear();
  const uint64_t alive = counters_.allocations_alive;
  counters_ = {};
  counters_.allocations_alive = alive;
}

std::string place(int32_t device) {
  return device < 0 ? "host" : "device " + std::to_string(device);
}

std::string text_of(const void* pointer) {
  char text[32];
  std::snprintf(text, sizeof text, "%p", pointer);
  return text;
}

}  // namespace fake_gpu
