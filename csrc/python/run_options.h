#pragma once

#include <Python.h>
#include <ortdl/runtime.h>

/// \file
/// Run options of the onnxruntime package.
namespace ortdl::python {

/// Tell this module what an `onnxruntime.RunOptions` is. If the objects of `cls` are not laid out
/// as expected, none is taken from then on.
/// \throws c10::TypeError unless it is a class.
void set_run_options_class(PyObject* cls);

/// The options inside the `onnxruntime.RunOptions` `object`, which owns them; null for None.
/// \throws c10::TypeError for anything else.
[[nodiscard]] OrtRunOptions* run_options_arg(PyObject* object);

}  // namespace ortdl::python
