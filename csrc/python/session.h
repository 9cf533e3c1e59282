#pragma once

#include <Python.h>
#include <ortdl/session.h>

namespace ortdl::python {

/// Add `InferenceSessionBase` to `module`; false with a Python error set on failure.
[[nodiscard]] bool add_session(PyObject* module);

}  // namespace ortdl::python
