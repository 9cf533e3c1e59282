#pragma once

#include <Python.h>

namespace ortdl::python {

/// The functions that make sessions, for PyModule_AddFunctions.
[[nodiscard]] PyMethodDef* session_functions() noexcept;

}  // namespace ortdl::python
