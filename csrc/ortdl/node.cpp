#include <ortdl/memory.h>
#include <ortdl/node.h>
#include <ortdl/type_string.h>

#include <memory>
#include <sstream>

namespace ortdl {
namespace {

void read_tensor_type(const OrtTypeInfo* info, Node& node) {
  ONNXType kind = ONNX_TYPE_UNKNOWN;
  check_status(api().GetOnnxTypeFromTypeInfo(info, &kind));
  if (kind != ONNX_TYPE_TENSOR) {
    return;
  }
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check_status(api().CastTypeInfoToTensorInfo(info, &tensor));
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(api().GetTensorElementType(tensor, &element));
  node.element = find_element_type(element);
  size_t rank = 0;
  check_status(api().GetDimensionsCount(tensor, &rank));
  node.shape.resize(rank);
  check_status(api().GetDimensions(tensor, node.shape.data(), rank));
  std::vector<const char*> symbols(rank);
  check_status(api().GetSymbolicDimensions(tensor, symbols.data(), rank));
  node.symbols.assign(symbols.begin(), symbols.end());
}

template <typename Count, typename Name, typename Type, typename Memory>
std::vector<Node> read_nodes(const OrtSession* session, Count count, Name name, Type type,
                             Memory memory) {
  size_t size = 0;
  check_status((api().*count)(session, &size));
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  const auto free = [allocator](char* text) noexcept { allocator->Free(allocator, text); };
  std::vector<Node> nodes(size);
  std::vector<const OrtMemoryInfo*> memories(size, nullptr);
  if (size > 0) {
    check_status((api().*memory)(session, memories.data(), size));
  }
  for (size_t i = 0; i < size; ++i) {
    char* text = nullptr;
    check_status((api().*name)(session, i, allocator, &text));
    const std::unique_ptr<char, decltype(free)> owned(text, free);
    nodes[i].name = owned.get();
    nodes[i].memory = memories[i];
    if (memories[i] != nullptr) {
      // ONNX Runtime itself copies to and from accelerators that PyTorch has no name for.
      nodes[i].device = find_device(memories[i]).value_or(at::kCPU);
    }
    OrtTypeInfo* raw = nullptr;
    check_status((api().*type)(session, i, &raw));
    const TypeInfoHandle info(raw);
    nodes[i].type = type_string(raw);
    read_tensor_type(raw, nodes[i]);
  }
  return nodes;
}

}  // namespace

std::string Node::describe() const {
  std::ostringstream text;
  text << name << ": " << type << '[';
  for (size_t i = 0; i < shape.size(); ++i) {
    text << (i == 0 ? "" : ", ");
    if (shape[i] >= 0) {
      text << shape[i];
    } else {
      text << (symbols[i].empty() ? "?" : symbols[i]);
    }
  }
  text << ']';
  return text.str();
}

std::string describe(const std::vector<Node>& nodes) {
  std::string text;
  for (const Node& node : nodes) {
    text += (text.empty() ? "" : ", ") + node.describe();
  }
  return text.empty() ? "(none)" : text;
}

std::string expected_inputs(const std::vector<Node>& inputs) {
  return "The model's inputs are: " + describe(inputs);
}

std::vector<Node> read_inputs(const OrtSession* session) {
  return read_nodes(session, &OrtApi::SessionGetInputCount, &OrtApi::SessionGetInputName,
                    &OrtApi::SessionGetInputTypeInfo, &OrtApi::SessionGetMemoryInfoForInputs);
}

std::vector<Node> read_outputs(const OrtSession* session) {
  return read_nodes(session, &OrtApi::SessionGetOutputCount, &OrtApi::SessionGetOutputName,
                    &OrtApi::SessionGetOutputTypeInfo, &OrtApi::SessionGetMemoryInfoForOutputs);
}

}  // namespace ortdl
