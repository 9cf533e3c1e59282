#pragma once

#include <Python.h>
#include <ortdl/value.h>

/// \file
/// The producer's side of the DLPack protocol.
namespace ortdl::python {

/// `OrtValue.__dlpack__(*, stream=None, max_version=None, dl_device=None, copy=None)`.
PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names);
/// `OrtValue.__dlpack_device__()`.
PyObject* dlpack_device_tuple(PyObject* self, PyObject* unused);
/// `to_dlpack(value, *, max_version=None)`: for a reader on the current stream.
PyObject* to_dlpack(PyObject* module, PyObject* const* args, Py_ssize_t count, PyObject* names);

}  // namespace ortdl::python
