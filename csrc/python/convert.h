#pragma once

#include <Python.h>

/// \file
/// The conversions between tensors and OrtValues, as CPython functions: pybind11's dispatch costs
/// more than the work they do.
namespace ortdl::python {

/// The functions, for PyModule_AddFunctions.
[[nodiscard]] PyMethodDef* conversion_functions() noexcept;

}  // namespace ortdl::python
