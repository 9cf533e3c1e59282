#include <ortdl/interrupt.h>
#include <pthread.h>
#include <python/interrupt.h>

#include <atomic>
#include <csignal>
#include <ctime>
#include <optional>

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

// The handler, if it is Python's and may have to be replaced by ours: one that is neither Python's
// nor ours may call ours, and must not be called by it.
std::optional<struct sigaction> python_handler() noexcept {
  struct sigaction found{};
  if (sigaction(SIGINT, nullptr, &found) != 0 || (found.sa_flags & SA_SIGINFO) != 0 ||
      found.sa_handler == handle_interrupt || found.sa_handler == SIG_DFL ||
      found.sa_handler == SIG_IGN) {
    return std::nullopt;
  }
  const auto before = chained.load();
  return before == nullptr || before == found.sa_handler ? std::optional(found) : std::nullopt;
}

void put_handler() {
  const auto found = python_handler();
  if (!found.has_value() || !python_raises_keyboard_interrupt() || !make_interruptible()) {
    return;
  }
  chained = found->sa_handler;
  struct sigaction ours = *found;
  ours.sa_handler = handle_interrupt;
  sigaction(SIGINT, &ours, nullptr);
}

}  // namespace

void watch_for_interrupt() noexcept {
  if (pthread_self() != main_thread) {
    return;
  }
  static long looked = -kNanosecondsPerLook;
  const long now = coarse_now();
  if (now - looked < kNanosecondsPerLook) [[likely]] {
    return;
  }
  looked = now;
  if (!python_handler().has_value() || Py_IsInitialized() == 0) {
    return;
  }
  const PyGILState_STATE state = PyGILState_Ensure();
  {
    const py::error_scope pending;
    try {
      put_handler();
    } catch (const std::exception&) {
      PyErr_Clear();  // then Ctrl-C is heard when the run is over, as without us
    }
  }
  PyGILState_Release(state);
}

void watch_for_interrupts() {
  const py::object found = py::module_::import("threading").attr("main_thread")();
  main_thread = py::cast<pthread_t>(found.attr("ident"));
  look_before_runs(&watch_for_interrupt);
}

void raise_if_interrupted() {
  if (take_interruption() && PyErr_CheckSignals() != 0) {
    throw py::error_already_set();
  }
}

}  // namespace ortdl::python
