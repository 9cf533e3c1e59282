#pragma once

#include <Python.h>
#include <ortdl/session.h>

namespace ortdl::python {

/// The session that the Python InferenceSession `object` stands for.
/// \throws c10::TypeError if it is something else, c10::Error if it was never made.
[[nodiscard]] const SessionPtr& session_arg(PyObject* object);

/// Add `InferenceSessionBase` to `module`; false with a Python error set on failure.
[[nodiscard]] bool add_session(PyObject* module);

}  // namespace ortdl::python
