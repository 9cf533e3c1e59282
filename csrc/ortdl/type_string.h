#pragma once

#include <onnxruntime_c_api.h>

#include <string>

namespace ortdl {

/// A type as onnxruntime spells it: "tensor(float)", "seq(map(int64,tensor(float)))", ...
[[nodiscard]] std::string type_string(const OrtTypeInfo* info);

}  // namespace ortdl
