#pragma once

#include <Python.h>
#include <ortdl/value.h>

/// \file
/// The consumer's side of the DLPack protocol.
namespace ortdl::python {

/// `from_dlpack(x, /, *, device=None, copy=None)`: x is a capsule, or an object with `__dlpack__`.
PyObject* from_dlpack(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* names);

}  // namespace ortdl::python
