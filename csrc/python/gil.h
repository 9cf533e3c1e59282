#pragma once

#include <Python.h>
#include <cxxabi.h>
#include <unistd.h>

/// \file
/// Python's global lock, given up while C++ works.
namespace ortdl::python {

/// Gives the GIL up for a scope.
///
/// While the interpreter ends, Python before 3.14 answers a daemon thread that asks for the GIL by
/// unwinding its stack, and the first `noexcept` on the way ends the process. So the thread is held
/// here until the process is gone, as newer Pythons do.
class WithoutGil {
 public:
  WithoutGil() noexcept : thread_(PyEval_SaveThread()) {}
  WithoutGil(const WithoutGil&) = delete;
  WithoutGil(WithoutGil&&) = delete;
  WithoutGil& operator=(const WithoutGil&) = delete;
  WithoutGil& operator=(WithoutGil&&) = delete;
  ~WithoutGil() {
    try {
      PyEval_RestoreThread(thread_);
    } catch (const abi::__forced_unwind&) {
      while (true) {
        pause();
      }
    }
  }

 private:
  PyThreadState* thread_;
};

}  // namespace ortdl::python
