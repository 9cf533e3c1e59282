#pragma once

#include <Python.h>
#include <ortdl/value.h>

/// \file
/// `ortdl_torch._C.OrtValueBase`, a plain CPython type: making one must cost next to nothing.
namespace ortdl::python {

/// Add the type to `module`; false with a Python error set on failure.
[[nodiscard]] bool add_ortvalue(PyObject* module);

/// Make `cls`, a subclass of the type, the class of the values that functions here return.
/// \throws c10::TypeError if it is not a subclass.
void set_value_class(PyObject* cls);

/// A new Python OrtValue. \throws python_error
[[nodiscard]] PyObject* wrap_value(ValuePtr value);

/// The value behind an `OrtValue` or a `torch.classes.ortdl.OrtValue`; `storage` holds the
/// latter's.
/// \throws c10::TypeError for anything else.
[[nodiscard]] const ValuePtr& unwrap_value(PyObject* object, ValuePtr& storage);

/// The same for what was given for the model's `what` ("input" or "output") `name`, which the error
/// speaks of.
[[nodiscard]] const ValuePtr& value_for(PyObject* object, ValuePtr& storage, const char* what,
                                        const std::string& name);

/// As `unwrap_value`, but null for anything else.
/// \throws c10::TypeError for an `onnxruntime.OrtValue` that is no tensor of a supported type.
[[nodiscard]] ValuePtr value_or_null(PyObject* object);

}  // namespace ortdl::python
