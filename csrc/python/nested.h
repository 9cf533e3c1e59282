#pragma once

#include <ortdl/value.h>
#include <torch/csrc/utils/pybind.h>

#include <string_view>

/// \file
/// Strings, sequences, maps and optional values as Python's own objects.
namespace ortdl::python {

/// The value that `object` is for an input of a type that is no dense tensor, as onnxruntime spells
/// it: an OrtValue as it is, else
///   tensor(string): see `text_arg`; seq(T): a list or tuple of what T takes;
///   map(K,V): a dict; optional(T): None or what T takes; tensor(T) inside these: a tensor.
/// Tensors are lent, as by `to_ortvalue`, but for those that are not contiguous.
/// \throws c10::TypeError for anything else, or another dtype; c10::ValueError for a tensor in a
///   list that is not on the CPU; as `Value::from_tensor` and `text_arg` do; OrtError.
[[nodiscard]] ValuePtr nested_arg(py::handle object, std::string_view type);

/// What an output is in Python: None, str or nested lists of str, a tensor, or a list or dict of
/// such. Sequences are copied, since ONNX Runtime gives no more than copies.
/// \throws c10::TypeError for a value of another kind, as `text_result` and `Value::to_tensor` do.
[[nodiscard]] py::object nested_result(const ValuePtr& value);

}  // namespace ortdl::python
