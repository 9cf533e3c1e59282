#include <ortdl/in_flight.h>
#include <pthread.h>

#include <condition_variable>
#include <mutex>
#include <utility>
#include <vector>

namespace ortdl {
namespace detail {

class RunsInFlight {
 public:
  using Place = std::list<SharedRunOptions>::const_iterator;

  // `forked`: whether this process is a child of one that had started runs.
  explicit RunsInFlight(bool forked) : forked_(forked) {}

  Place add(SharedRunOptions options) {
    const std::scoped_lock lock(mutex_);
    TORCH_CHECK(!forked_,
                "the process forked after it had run a model asynchronously, and PyTorch's threads "
                "for that did not come along: call the session itself in the child, or start the "
                "child with 'spawn'");
    TORCH_CHECK(!closed_, "the program is ending: no run can be started any more");
    return runs_.insert(runs_.end(), std::move(options));
  }

  void remove(Place place) noexcept {
    const std::scoped_lock lock(mutex_);
    runs_.erase(place);
    if (runs_.empty()) {
      ended_.notify_all();
    }
  }

  void end() {
    for (const SharedRunOptions& options : close()) {
      terminate(options);
    }
    std::unique_lock lock(mutex_);
    ended_.wait(lock, [this] { return runs_.empty(); });
  }

 private:
  std::vector<SharedRunOptions> close() {
    const std::scoped_lock lock(mutex_);
    closed_ = true;
    return {runs_.begin(), runs_.end()};
  }

  std::mutex mutex_;
  std::condition_variable ended_;
  std::list<SharedRunOptions> runs_;
  bool forked_;
  bool closed_ = false;
};

namespace {

// Never destroyed: a run may end after everything else. A forked child gets a new one, because the
// threads of what is in flight stay behind.
RunsInFlight*& runs_in_flight() {
  static RunsInFlight* runs = [] {
    pthread_atfork(nullptr, nullptr, [] { runs_in_flight() = new RunsInFlight(true); });
    return new RunsInFlight(false);
  }();
  return runs;
}

}  // namespace

InFlight::InFlight(SharedRunOptions options)
    : among_(*runs_in_flight()), place_(among_.add(std::move(options))) {}

InFlight::~InFlight() { among_.remove(place_); }

}  // namespace detail

SharedRunOptions make_run_options() {
  OrtRunOptions* created = nullptr;
  check_status(api().CreateRunOptions(&created));
  return {created, Releaser<&OrtApi::ReleaseRunOptions>()};
}

void terminate(const SharedRunOptions& options) noexcept {
  // It has no way to fail.
  const StatusHandle status(api().RunOptionsSetTerminate(options.get()));
}

void end_runs_in_flight() { detail::runs_in_flight()->end(); }

}  // namespace ortdl
