#include <c10/util/Exception.h>
#include <ortdl/model_proto.h>
#include <ortdl/proto_reader.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace ortdl {
namespace {

using detail::ProtoField;
using detail::ProtoReader;
using detail::WireType;
using Bytes = detail::ByteView;

enum class Message : uint8_t {
  kModel,
  kTraining,
  kFunction,
  kGraph,
  kNode,
  kAttribute,
  kSparseTensor,
  kTensor,
};

struct Child {
  Message parent;
  uint32_t field;
  Message child;
};

// Every way that leads to a tensor, by onnx.proto's field numbers.
constexpr std::array kChildren{
    Child{Message::kModel, 7, Message::kGraph},
    Child{Message::kModel, 20, Message::kTraining},
    Child{Message::kModel, 25, Message::kFunction},
    Child{Message::kTraining, 1, Message::kGraph},
    Child{Message::kTraining, 2, Message::kGraph},
    Child{Message::kFunction, 7, Message::kNode},
    Child{Message::kFunction, 11, Message::kAttribute},
    Child{Message::kGraph, 1, Message::kNode},
    Child{Message::kGraph, 5, Message::kTensor},
    Child{Message::kGraph, 15, Message::kSparseTensor},
    Child{Message::kNode, 5, Message::kAttribute},
    Child{Message::kAttribute, 5, Message::kTensor},
    Child{Message::kAttribute, 6, Message::kGraph},
    Child{Message::kAttribute, 10, Message::kTensor},
    Child{Message::kAttribute, 11, Message::kGraph},
    Child{Message::kAttribute, 22, Message::kSparseTensor},
    Child{Message::kAttribute, 23, Message::kSparseTensor},
    Child{Message::kSparseTensor, 1, Message::kTensor},
    Child{Message::kSparseTensor, 2, Message::kTensor},
};

// A message that is still to be read.
struct Pending {
  Message kind;
  Bytes bytes;
  bool in_main_graph;
};

uint64_t to_number(std::string_view key, const std::string& digits) {
  uint64_t number = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, number);
  TORCH_CHECK_VALUE(error == std::errc() && stop == end && !digits.empty(),
                    "the model's external data has the ", key, " '", digits,
                    "', which is no number of bytes");
  return number;
}

// One entry of TensorProto.external_data.
void read_external_entry(Bytes entry, ExternalData& external) {
  std::string key;
  std::string value;
  ProtoReader reader(entry);
  while (const auto field = reader.next()) {
    if (field->type == WireType::kBytes && field->number == 1) {
      key = field->bytes.text();
    } else if (field->type == WireType::kBytes && field->number == 2) {
      value = field->bytes.text();
    }
  }
  if (key == "location") {
    external.location = value;
  } else if (key == "offset") {
    external.offset = to_number(key, value);
  } else if (key == "length") {
    external.length = to_number(key, value);
  }
}

void read_dims(const ProtoField& field, std::vector<int64_t>& dims) {
  if (field.type == WireType::kVarint) {
    dims.push_back(static_cast<int64_t>(field.varint));
    return;
  }
  ProtoReader packed(field.bytes);
  while (const auto size = packed.next_packed()) {
    dims.push_back(static_cast<int64_t>(*size));
  }
}

Initializer read_tensor(Bytes tensor) {
  constexpr uint64_t external_location = 1;
  Initializer result;
  ExternalData external;
  bool is_external = false;
  ProtoReader reader(tensor);
  while (const auto field = reader.next()) {
    const bool is_bytes = field->type == WireType::kBytes;
    const bool is_number = field->type == WireType::kVarint;
    if (field->number == 1 && (is_bytes || is_number)) {
      read_dims(*field, result.dims);
    } else if (field->number == 2 && is_number) {
      result.data_type = static_cast<int64_t>(field->varint);
    } else if (field->number == 8 && is_bytes) {
      result.name = field->bytes.text();
    } else if (field->number == 13 && is_bytes) {
      read_external_entry(field->bytes, external);
    } else if (field->number == 14 && is_number) {
      is_external = field->varint == external_location;
    }
  }
  if (is_external) {
    result.external = std::move(external);
  }
  return result;
}

void add_constants(Bytes node, std::set<std::string>& constants) {
  std::vector<std::string> outputs;
  bool is_constant = false;
  ProtoReader reader(node);
  while (const auto field = reader.next()) {
    if (field->type == WireType::kBytes && field->number == 2) {
      outputs.push_back(field->bytes.text());
    } else if (field->type == WireType::kBytes && field->number == 4) {
      is_constant = field->bytes.text() == "Constant";
    }
  }
  if (is_constant) {
    constants.insert(outputs.begin(), outputs.end());
  }
}

}  // namespace

bool is_ort_format(std::span<const std::byte> model) noexcept {
  constexpr std::string_view identifier = "ORTM";
  constexpr size_t at = 4;
  const auto is_same = [](std::byte byte, char letter) {
    return static_cast<char>(byte) == letter;
  };
  return model.size() >= at + identifier.size() &&
         std::ranges::equal(model.subspan(at, identifier.size()), identifier, is_same);
}

namespace {

ModelProto read(Bytes model) {
  ModelProto result;
  // A list instead of recursion: a hostile model's depth costs no stack.
  std::vector<Pending> pending{{Message::kModel, model, true}};
  while (!pending.empty()) {
    const Pending message = pending.back();
    pending.pop_back();
    const bool is_main = message.kind == Message::kGraph && message.in_main_graph;
    if (message.kind == Message::kNode) {
      add_constants(message.bytes, result.constants);
    }
    ProtoReader reader(message.bytes);
    while (const auto field = reader.next()) {
      const auto* child = std::ranges::find_if(kChildren, [&](const Child& known) {
        return known.parent == message.kind && known.field == field->number;
      });
      if (child == kChildren.end() || field->type != WireType::kBytes) {
        continue;
      }
      if (child->child != Message::kTensor) {
        const bool leads_to_main =
            message.kind == Message::kModel && child->child == Message::kGraph;
        pending.push_back({child->child, field->bytes, leads_to_main});
        continue;
      }
      Initializer tensor = read_tensor(field->bytes);
      if (tensor.external.has_value()) {
        result.external_locations.insert(tensor.external->location);
        result.external_elsewhere |= !is_main;
      }
      if (message.kind == Message::kSparseTensor) {
        result.constants.insert(tensor.name);
      }
      if (message.kind == Message::kGraph) {
        (is_main ? result.initializers : result.nested_initializers).push_back(std::move(tensor));
      }
    }
  }
  return result;
}

}  // namespace

ModelProto read_model_proto(std::span<const std::byte> model) { return read(model); }

ModelProto read_model_proto(const std::string& path) {
  detail::WindowedFile file(path);
  return read(Bytes(file));
}

}  // namespace ortdl
