#include <Python.h>
#include <pthread.h>
#include <python/release_queue.h>
#include <torch/csrc/utils/pybind.h>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>

namespace ortdl::python {
namespace {

class ReleaseQueue {
 public:
  void push(ForeignRelease release) noexcept {
    const std::lock_guard lock(mutex_);
    if (stopped_) {
      return;
    }
    try {
      pending_.push_back(release);
      waiting_ = true;
      if (!thread_.joinable()) {
        thread_ = std::thread([this] { work(); });
      }
    } catch (const std::exception&) {
      return;  // out of memory or threads: what cannot be queued leaks
    }
    wake_.notify_one();
  }

  // Does what is pending on this thread, which holds the GIL.
  void drain() noexcept {
    if (!waiting_) [[likely]] {
      return;
    }
    for (const ForeignRelease& release : take()) {
      release.function(release.object);
    }
  }

  void stop() {
    {
      const std::lock_guard lock(mutex_);
      stopped_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) {
      // The thread may be waiting for the GIL that this one holds.
      const py::gil_scoped_release released;
      thread_.join();
    }
  }

 private:
  std::deque<ForeignRelease> take() noexcept {
    const std::lock_guard lock(mutex_);
    waiting_ = false;
    return std::exchange(pending_, {});
  }

  void work() {
    // One thread state for the thread's life: making one takes a lock of CPython's that a fork in
    // another thread would leave locked in the child.
    const py::gil_scoped_acquire registered;
    while (!stopped_) {
      {
        const py::gil_scoped_release waiting;
        std::unique_lock lock(mutex_);
        wake_.wait(lock, [this] { return stopped_ || !pending_.empty(); });
      }
      for (const ForeignRelease& release : take()) {
        if (stopped_) {
          return;  // the interpreter ends: the rest leaks
        }
        release.function(release.object);
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<ForeignRelease> pending_;
  std::thread thread_;
  std::atomic<bool> waiting_{false};
  std::atomic<bool> stopped_{false};
};

// Never destroyed: values may die after everything else. A forked child gets a new one, because
// the thread and what it held stayed behind.
ReleaseQueue* queue = nullptr;

}  // namespace

void release_with_gil(ForeignRelease release) noexcept {
  if (Py_IsInitialized() == 0) {
    return;
  }
  if (PyGILState_Check() != 0) {
    const py::error_scope pending;  // which the foreign code must neither see nor clear
    detail::release_now(release);
  } else {
    queue->push(release);
  }
}

void install_release_queue() {
  queue = new ReleaseQueue;
  pthread_atfork(nullptr, nullptr, [] { queue = new ReleaseQueue; });
  set_foreign_release_hook(&release_with_gil);
}

void drain_release_queue() noexcept { queue->drain(); }

void stop_release_queue() { queue->stop(); }

}  // namespace ortdl::python
