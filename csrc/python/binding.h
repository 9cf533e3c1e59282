#pragma once

#include <Python.h>

/// \file
/// `ortdl_torch._C.IOBindingBase`.
namespace ortdl::python {

/// Add the type to `module`; false with a Python error set on failure.
[[nodiscard]] bool add_binding(PyObject* module);

/// `InferenceSession.run_with_iobinding`, as CPython's fast call with keywords.
[[nodiscard]] PyObject* run_with_iobinding(PyObject* self, PyObject* const* args, Py_ssize_t count,
                                           PyObject* names);

}  // namespace ortdl::python
