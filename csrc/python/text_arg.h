#pragma once

#include <ortdl/text.h>
#include <torch/csrc/utils/pybind.h>

/// \file
/// Strings of Python as tensors of strings, and back.
namespace ortdl::python {

/// The tensor of strings that `object` is: a str or bytes (0-d), lists and tuples of such, nested
/// alike, or a NumPy array of them. A str becomes UTF-8; bytes stay as they are.
/// \throws c10::TypeError for anything else, c10::ValueError for lists of unequal lengths or
/// depths,
///   python_error (UnicodeEncodeError) for a str that has no UTF-8.
[[nodiscard]] ValuePtr text_arg(py::handle object);

/// The strings as nested lists of `text`'s shape, a str if it is 0-d.
/// \throws python_error (UnicodeDecodeError) for one that is no UTF-8.
[[nodiscard]] py::object text_result(const Text& text);

/// Whether `object` is a NumPy array.
[[nodiscard]] bool is_array(py::handle object);

}  // namespace ortdl::python
