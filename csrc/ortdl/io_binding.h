#pragma once

#include <ortdl/runtime.h>

#include <memory>
#include <vector>

/// \file
/// ONNX Runtime's bindings, which hold the inputs and outputs of runs.
namespace ortdl {

using IoBindingHandle = std::unique_ptr<OrtIoBinding, Releaser<&OrtApi::ReleaseIoBinding>>;

/// An empty one. \throws OrtError
[[nodiscard]] IoBindingHandle make_io_binding(OrtSession* session);

/// The outputs of the last run, in the order in which they were bound. \throws OrtError
[[nodiscard]] std::vector<ValueHandle> bound_outputs(const OrtIoBinding* binding);

}  // namespace ortdl
