#pragma once

#include <ortdl/runtime.h>
#include <pybind11/pybind11.h>
#include <python/gil.h>

/// \file
/// Ctrl-C ends a run of the main thread, which Python's own handler would let end first.
///
/// While Python's handler of SIGINT is its default one, which raises KeyboardInterrupt, a handler
/// of ours stands before it. Any other handler, SIG_IGN and SIG_DFL are left as they are.
namespace ortdl::python {

/// From now on, before each run of Python's main thread, which alone handles signals, put our
/// handler there if it has to be and is not. It looks only every few milliseconds. Called on any
/// thread, with the GIL.
void watch_for_interrupts();

/// The same for the run that follows. With the GIL it waits for nobody; the run itself would have
/// to wait for the GIL.
void watch_for_interrupt() noexcept;

/// To be called with the GIL when a run failed.
/// \throws pybind11::error_already_set for the KeyboardInterrupt if that is why.
void raise_if_interrupted();

/// What `run` returns, called without the GIL.
/// \throws pybind11::error_already_set for the KeyboardInterrupt that ended it.
template <typename Run>
auto run_interruptibly(Run&& run) {
  watch_for_interrupt();
  try {
    const WithoutGil released;
    return run();
  } catch (const OrtError&) {
    raise_if_interrupted();
    throw;
  }
}

}  // namespace ortdl::python
