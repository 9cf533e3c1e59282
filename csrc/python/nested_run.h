#pragma once

#include <ortdl/outputs.h>
#include <ortdl/session.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>

/// \file
/// Inputs and outputs of a session that are no dense tensors.
namespace ortdl::python {

/// Give `object` as the input number `index`, which takes no dense tensor.
/// \throws as `nested_arg` and `Feeds::set` do, with the input's name.
void set_nested(Feeds& feeds, const Session& session, size_t index, py::handle object);

/// Whether some of the outputs `indices` are Python's objects instead of tensors.
[[nodiscard]] inline bool gives_nested(const Session& session, at::ArrayRef<size_t> indices) {
  return std::ranges::any_of(indices, [&](size_t index) {
    const Node& node = session.outputs()[index];
    return !is_dense(node) && is_nested(node);
  });
}

/// Run `session` for outputs of which some are no tensors. Called with the GIL, which is released
/// while ONNX Runtime works. \throws as `Session::run` and `nested_result` do.
[[nodiscard]] py::list run_nested(const Session& session, const Feeds& feeds,
                                  at::ArrayRef<size_t> outputs, OrtRunOptions* options = nullptr);

}  // namespace ortdl::python
