#pragma once

#include <ortdl/value.h>

#include <string_view>

namespace ortdl {

/// A sequence without items. ONNX Runtime has an operator for it and no function, so this runs a
/// model of one node.
/// \param type As onnxruntime spells it, such as "seq(tensor(float))".
/// \throws c10::TypeError unless `type` is a sequence of tensors, OrtError if ONNX Runtime's
///   operator lacks it.
[[nodiscard]] ValuePtr empty_sequence(std::string_view type);

}  // namespace ortdl
