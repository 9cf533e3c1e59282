#include <ortdl/element_type.h>
#include <ortdl/runtime.h>
#include <ortdl/type_string.h>

#include <algorithm>

namespace ortdl {
namespace {

std::string tensor_string(const OrtTypeInfo* info, const char* kind) {
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check_status(api().CastTypeInfoToTensorInfo(info, &tensor));
  if (tensor == nullptr) {
    return std::string(kind) + "(unknown)";
  }
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(api().GetTensorElementType(tensor, &type));
  return std::string(kind) + "(" + element_name(type) + ")";
}

std::string sequence_string(const OrtTypeInfo* info) {
  const OrtSequenceTypeInfo* sequence = nullptr;
  check_status(api().CastTypeInfoToSequenceTypeInfo(info, &sequence));
  OrtTypeInfo* element = nullptr;
  check_status(api().GetSequenceElementType(sequence, &element));
  return "seq(" + type_string(TypeInfoHandle(element).get()) + ")";
}

std::string map_string(const OrtTypeInfo* info) {
  const OrtMapTypeInfo* map = nullptr;
  check_status(api().CastTypeInfoToMapTypeInfo(info, &map));
  ONNXTensorElementDataType key = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(api().GetMapKeyType(map, &key));
  OrtTypeInfo* value = nullptr;
  check_status(api().GetMapValueType(map, &value));
  return std::string("map(") + element_name(key) + "," + type_string(TypeInfoHandle(value).get()) +
         ")";
}

std::string optional_string(const OrtTypeInfo* info) {
  const OrtOptionalTypeInfo* optional = nullptr;
  check_status(api().CastTypeInfoToOptionalTypeInfo(info, &optional));
  OrtTypeInfo* contained = nullptr;
  check_status(api().GetOptionalContainedTypeInfo(optional, &contained));
  return "optional(" + type_string(TypeInfoHandle(contained).get()) + ")";
}

}  // namespace

std::string type_string(const OrtTypeInfo* info) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  check_status(api().GetOnnxTypeFromTypeInfo(info, &kind));
  switch (kind) {
    case ONNX_TYPE_TENSOR:
      return tensor_string(info, "tensor");
    case ONNX_TYPE_SPARSETENSOR:
      return tensor_string(info, "sparse_tensor");
    case ONNX_TYPE_SEQUENCE:
      return sequence_string(info);
    case ONNX_TYPE_MAP:
      return map_string(info);
    case ONNX_TYPE_OPTIONAL:
      return optional_string(info);
    default:
      return "opaque";
  }
}

std::string_view inner_type(std::string_view type, std::string_view kind) noexcept {
  if (!type.starts_with(kind) || !type.substr(kind.size()).starts_with('(') ||
      !type.ends_with(')')) {
    return {};
  }
  type.remove_prefix(kind.size() + 1);
  type.remove_suffix(1);
  return type;
}

const ElementType* tensor_element(std::string_view type) noexcept {
  const std::string_view name = inner_type(type, "tensor");
  const auto found = std::ranges::find(element_types(), name, &ElementType::name);
  return found == element_types().end() ? nullptr : &*found;
}

}  // namespace ortdl
