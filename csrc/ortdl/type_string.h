#pragma once

#include <onnxruntime_c_api.h>
#include <ortdl/element_type.h>

#include <string>
#include <string_view>

namespace ortdl {

/// A type as onnxruntime spells it: "tensor(float)", "seq(map(int64,tensor(float)))", ...
[[nodiscard]] std::string type_string(const OrtTypeInfo* info);

/// What stands in `kind` "(...)", as "tensor(float)" in "seq(tensor(float))" for "seq"; empty if
/// the spelled type is of another kind.
[[nodiscard]] std::string_view inner_type(std::string_view type, std::string_view kind) noexcept;

/// The element type of a spelled tensor type; null for any other type, tensor(string) among them.
[[nodiscard]] const ElementType* tensor_element(std::string_view type) noexcept;

}  // namespace ortdl
