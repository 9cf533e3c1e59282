#pragma once

#include <Python.h>
#include <ortdl/value.h>

/// \file
/// The conversions between tensors and OrtValues, as CPython functions: pybind11's dispatch costs
/// more than the work they do.
namespace ortdl::python {

/// `Value::from_tensor`, which releases the GIL while it copies.
[[nodiscard]] ValuePtr value_of_tensor(const at::Tensor& tensor, Copy copy);

/// The functions, for PyModule_AddFunctions.
[[nodiscard]] PyMethodDef* conversion_functions() noexcept;

}  // namespace ortdl::python
