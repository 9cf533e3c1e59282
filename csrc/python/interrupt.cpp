#include <ortdl/interrupt.h>
#include <pthread.h>
#include <python/interrupt.h>

#include <atomic>
#include <csignal>
#include <ctime>

namespace ortdl::python {

namespace py = pybind11;

namespace {

constexpr long kNanosecondsPerLook = 5'000'000;

// Python's handler in C, in front of which ours was put; a handler reads it.
std::atomic<void (*)(int)> chained = nullptr;
static_assert(std::atomic<void (*)(int)>::is_always_lock_free);

extern "C" void handle_interrupt(int number) {
  const Interruption now;
  // First what makes the KeyboardInterrupt, so that it is pending when the run has ended.
  chained.load()(number);
  now.end_run();
}

pthread_t main_thread = 0;

// A time that costs next to nothing.
long coarse_now() noexcept {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
  return now.tv_sec * 1'000'000'000L + now.tv_nsec;
}

bool python_raises_keyboard_interrupt() {
  const py::module_ signal = py::module_::import("signal");
  return signal.attr("getsignal")(SIGINT).is(signal.attr("default_int_handler"));
}

void put_handler() {
  struct sigaction found{};
  if (sigaction(SIGINT, nullptr, &found) != 0 || (found.sa_flags & SA_SIGINFO) != 0 ||
      found.sa_handler == handle_interrupt || found.sa_handler == SIG_DFL ||
      found.sa_handler == SIG_IGN) {
    return;
  }
  // One that is neither Python's nor ours may call ours, and must not be called by it.
  const auto before = chained.load();
  if ((before != nullptr && before != found.sa_handler) || !python_raises_keyboard_interrupt() ||
      !make_interruptible()) {
    return;
  }
  chained = found.sa_handler;
  struct sigaction ours = found;
  ours.sa_handler = handle_interrupt;
  sigaction(SIGINT, &ours, nullptr);
}

}  // namespace

void find_main_thread() {
  const py::object found = py::module_::import("threading").attr("main_thread")();
  main_thread = py::cast<pthread_t>(found.attr("ident"));
}

void watch_for_interrupt() {
  if (pthread_self() != main_thread) {
    return;
  }
  static long looked = -kNanosecondsPerLook;
  const long now = coarse_now();
  if (now - looked < kNanosecondsPerLook) [[likely]] {
    return;
  }
  looked = now;
  put_handler();
}

void raise_if_interrupted() {
  if (take_interruption() && PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

}  // namespace ortdl::python
