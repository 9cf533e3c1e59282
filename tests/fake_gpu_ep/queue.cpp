#include "queue.h"

#include <deque>
#include <map>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "recorder.h"

namespace fake_gpu {
namespace {

/// A queue of our own. Its address is its handle.
class OwnQueue final : public Queue {
 public:
  using Queue::Queue;
  // As a CUDA stream that is destroyed, it still does what it was given.
  ~OwnQueue() override { synchronize(); }

  [[nodiscard]] void* handle() const noexcept override { return const_cast<OwnQueue*>(this); }

  void synchronize() final {
    const std::lock_guard lock(mutex());
    // Work that waits for another queue may come back here.
    if (std::exchange(running_, true)) {
      return;
    }
    while (!waiting_.empty()) {
      const Work work = std::move(waiting_.front());
      waiting_.pop_front();
      work();
    }
    running_ = false;
  }

 private:
  // One for all queues, so that work of one may run another.
  static std::recursive_mutex& mutex() {
    static auto& mutex = *new std::recursive_mutex;
    return mutex;
  }

  void enqueue(Work work) override {
    const std::lock_guard lock(mutex());
    waiting_.push_back(std::move(work));
  }

  std::deque<Work> waiting_;
  bool running_ = false;
};

/// A stream of the accelerator's: the user's, or made and owned by us.
class AcceleratorQueue final : public Queue {
 public:
  AcceleratorQueue(const Accelerator& accelerator, int device, void* stream, bool owned) noexcept
      : Queue(device), accelerator_(accelerator), stream_(stream), owned_(owned) {}
  ~AcceleratorQueue() override {
    if (owned_) {
      accelerator_.destroy_stream(stream_);
    }
  }

  [[nodiscard]] void* handle() const noexcept override { return stream_; }

  void synchronize() override { accelerator_.synchronize(device(), stream_); }

 private:
  void enqueue(Work work) override { accelerator_.launch(device(), stream_, std::move(work)); }

  const Accelerator& accelerator_;
  void* stream_;
  bool owned_;
};

/// Our own queues by their handles.
class Directory {
 public:
  static Directory& instance() {
    static auto& directory = *new Directory;
    return directory;
  }

  void add(const std::shared_ptr<OwnQueue>& queue) {
    const std::lock_guard lock(mutex_);
    std::erase_if(queues_, [](const auto& entry) { return entry.second.expired(); });
    queues_[queue->handle()] = queue;
  }

  std::shared_ptr<OwnQueue> find(void* handle) const {
    const std::lock_guard lock(mutex_);
    const auto found = queues_.find(handle);
    return found == queues_.end() ? nullptr : found->second.lock();
  }

  std::vector<std::shared_ptr<OwnQueue>> all() const {
    const std::lock_guard lock(mutex_);
    std::vector<std::shared_ptr<OwnQueue>> alive;
    for (const auto& [handle, queue] : queues_) {
      if (auto held = queue.lock()) {
        alive.push_back(std::move(held));
      }
    }
    return alive;
  }

 private:
  mutable std::mutex mutex_;
  std::map<void*, std::weak_ptr<OwnQueue>> queues_;
};

}  // namespace

void Queue::submit(Work work) {
  enqueue([work = std::move(work), pending = std::make_shared<PendingMark>()] { work(); });
}

std::shared_ptr<Queue> create_queue(int device) {
  if (const Accelerator* accelerator = Accelerator::find()) {
    if (void* stream = accelerator->create_stream(device)) {
      return std::make_shared<AcceleratorQueue>(*accelerator, device, stream, true);
    }
  }
  auto queue = std::make_shared<OwnQueue>(device);
  Directory::instance().add(queue);
  return queue;
}

std::shared_ptr<Queue> queue_of(int device, void* handle) {
  if (auto own = Directory::instance().find(handle)) {
    return own;
  }
  if (const Accelerator* accelerator = Accelerator::find()) {
    return std::make_shared<AcceleratorQueue>(*accelerator, device, handle, false);
  }
  throw std::runtime_error("the stream " + text_of(handle) +
                           " is not the fake GPU provider's, and this process has no "
                           "cudaLaunchHostFunc to put work on it");
}

void run_own_queues(int device) {
  for (const auto& queue : Directory::instance().all()) {
    if (device < 0 || queue->device() == device) {
      queue->synchronize();
    }
  }
}

}  // namespace fake_gpu
