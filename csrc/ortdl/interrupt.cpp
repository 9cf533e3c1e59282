#include <ortdl/interrupt.h>
#include <pthread.h>
#include <sched.h>

#include <atomic>
#include <memory>

namespace ortdl {
namespace {

static_assert(std::atomic<OrtRunOptions*>::is_always_lock_free &&
              std::atomic<int>::is_always_lock_free && std::atomic<bool>::is_always_lock_free &&
              std::atomic<pthread_t>::is_always_lock_free);

std::atomic<pthread_t> interruptible = 0;  // a thread
// Its options. The default ones are for runs without any, and never released.
std::atomic<OrtRunOptions*> default_options = nullptr;
std::atomic<OrtRunOptions*> current = nullptr;
std::atomic<bool> interrupted = false;
std::atomic<int> interruptions = 0;  // that exist now
std::atomic<void (*)() noexcept> before_runs = nullptr;

bool is_interruptible() noexcept { return pthread_equal(interruptible, pthread_self()) != 0; }

}  // namespace

bool make_interruptible() {
  if (interruptible != 0) {
    return is_interruptible();
  }
  OrtRunOptions* created = nullptr;
  check_status(api().CreateRunOptions(&created));
  std::unique_ptr<OrtRunOptions, Releaser<&OrtApi::ReleaseRunOptions>> options(created);
  pthread_t nobody = 0;
  if (!interruptible.compare_exchange_strong(nobody, pthread_self())) {
    return false;
  }
  default_options = options.release();
  // A handler that another thread was in when this one forked does not go on in the child.
  pthread_atfork(nullptr, nullptr, [] { interruptions = 0; });
  return true;
}

void look_before_runs(void (*look)() noexcept) noexcept { before_runs = look; }

bool take_interruption() noexcept { return is_interruptible() && interrupted.exchange(false); }

Interruption::Interruption() noexcept { ++interruptions; }
Interruption::~Interruption() { --interruptions; }

void Interruption::end_run() const noexcept {  // NOLINT: an object of it must exist
  if (OrtRunOptions* options = current; options != nullptr) {
    interrupted = true;
    // It sets a flag, and cannot fail.
    const StatusHandle none(api().RunOptionsSetTerminate(options));
  }
}

InterruptibleRun::InterruptibleRun(OrtRunOptions* options) noexcept : options_(options) {
  if (const auto look = before_runs.load(); look != nullptr) {
    look();
  }
  if (!is_interruptible()) {
    return;
  }
  if (options_ == nullptr) {
    options_ = default_options;
  }
  outer_ = current;
  if (outer_ == nullptr) {
    interrupted.store(false, std::memory_order_release);
  }
  // Nothing is asked after it, as the destructor asks for interruptions: it need not be seen at
  // once.
  current.store(options_, std::memory_order_release);
}

InterruptibleRun::~InterruptibleRun() {
  if (!is_interruptible()) {
    return;
  }
  current = outer_;
  // A handler on another thread may still be about to use the options.
  while (interruptions != 0) {
    sched_yield();
  }
  if (interrupted && options_ != outer_) {
    // The caller's options, and the default ones, serve further runs.
    const StatusHandle none(api().RunOptionsUnsetTerminate(options_));
  }
}

}  // namespace ortdl
