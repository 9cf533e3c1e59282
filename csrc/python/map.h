#pragma once

#include <ortdl/value.h>
#include <torch/csrc/utils/pybind.h>

#include <string_view>

/// \file
/// Maps, which machine-learning operators such as ZipMap give, as dicts.
namespace ortdl::python {

/// The map of type `type`, such as "map(int64,tensor(float))", that the dict `object` is.
/// \throws c10::TypeError for anything else, or other keys or values; OrtError if ONNX Runtime
///   makes no such map.
[[nodiscard]] ValuePtr map_arg(py::handle object, std::string_view type);

/// The dict of two flat tensors, of strings or numbers.
/// \throws c10::TypeError for elements that no map has.
[[nodiscard]] py::dict map_result(const Value& keys, const Value& values);

}  // namespace ortdl::python
