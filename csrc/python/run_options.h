#pragma once

#include <Python.h>
#include <ortdl/runtime.h>

/// \file
/// Options of the onnxruntime package: of runs and of sessions.
namespace ortdl::python {

/// Tell this module what `onnxruntime.RunOptions` and `onnxruntime.SessionOptions` are. If the
/// objects of the former are not laid out as expected, none is taken from then on.
/// \throws c10::TypeError unless they are classes.
void set_options_classes(PyObject* run_options, PyObject* session_options);

/// The options inside the `onnxruntime.RunOptions` `object`, which owns them; null for None.
/// \throws c10::TypeError for anything else.
[[nodiscard]] OrtRunOptions* run_options_arg(PyObject* object);

/// \throws c10::TypeError unless `object` is an initialised `onnxruntime.SessionOptions`, of which
///   onnxruntime itself would read memory that is none of its options.
void require_session_options(PyObject* object);

}  // namespace ortdl::python
