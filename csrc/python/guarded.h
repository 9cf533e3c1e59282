#pragma once

#include <Python.h>

namespace ortdl::python {

/// Add the exception `OrtError` to `module`; false with a Python error set on failure.
[[nodiscard]] bool add_ort_error(PyObject* module);

/// Turn the C++ exception being handled into a Python one.
void set_python_error() noexcept;

/// Call `function` so that its exceptions become Python's: what a C entry of Python returns.
template <typename Function>
PyObject* guarded(Function&& function) noexcept {
  try {
    return function();
  } catch (...) {
    set_python_error();
    return nullptr;
  }
}

/// `function` as CPython's method tables hold it, whatever its calling convention.
template <typename Function>
PyCFunction c_function(Function* function) noexcept {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

}  // namespace ortdl::python
