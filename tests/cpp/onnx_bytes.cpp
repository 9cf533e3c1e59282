#include "onnx_bytes.h"

#include <ATen/ATen.h>

#include <cstring>

namespace ortdl::test::onnx {
namespace {

// A message of protobuf's wire format: fields of two kinds, which is all that ONNX needs here.
class Message {
 public:
  Message& number(uint32_t field, int64_t value) {
    put_varint(field << 3U);
    put_varint(static_cast<uint64_t>(value));
    return *this;
  }

  Message& text(uint32_t field, const std::string& value) {
    put_varint((field << 3U) | 2U);
    put_varint(value.size());
    bytes_ += value;
    return *this;
  }

  [[nodiscard]] const std::string& bytes() const noexcept { return bytes_; }

 private:
  void put_varint(uint64_t value) {
    for (; value >= 0x80U; value >>= 7U) {
      bytes_ += static_cast<char>((value & 0x7FU) | 0x80U);
    }
    bytes_ += static_cast<char>(value);
  }

  std::string bytes_;
};

std::string shape_bytes(const std::vector<Dimension>& shape) {
  Message message;
  for (const Dimension& dimension : shape) {
    Message one;
    if (const auto* size = std::get_if<int64_t>(&dimension)) {
      one.number(1, *size);
    } else if (const auto* name = std::get_if<std::string>(&dimension); !name->empty()) {
      one.text(2, *name);
    }
    message.text(1, one.bytes());
  }
  return message.bytes();
}

std::string operator_bytes(const Operator& node) {
  Message message;
  for (const std::string& name : node.inputs) {
    message.text(1, name);
  }
  for (const std::string& name : node.outputs) {
    message.text(2, name);
  }
  message.text(4, node.type);
  for (const auto& [name, value] : node.attributes) {
    constexpr int64_t integer = 2;
    message.text(5, Message().text(1, name).number(3, value).number(20, integer).bytes());
  }
  return message.bytes();
}

std::string info_bytes(const Info& info) {
  return Message().text(1, info.name).text(2, info.type).bytes();
}

std::string initializer_bytes(const Initializer& initializer) {
  Message message;
  for (const int64_t size : initializer.value.sizes()) {
    message.number(1, size);
  }
  message.number(2, initializer.element).text(8, initializer.name);
  if (!initializer.location.empty()) {
    constexpr int64_t external = 1;
    return message.text(13, Message().text(1, "location").text(2, initializer.location).bytes())
        .number(14, external)
        .bytes();
  }
  const at::Tensor dense = initializer.value.contiguous();
  const std::string raw(static_cast<const char*>(dense.const_data_ptr()), dense.nbytes());
  return message.text(9, raw).bytes();
}

}  // namespace

std::string tensor_type(int32_t element, const Shape& shape) {
  Message tensor;
  tensor.number(1, element);
  if (shape.has_value()) {
    tensor.text(2, shape_bytes(*shape));
  }
  return Message().text(1, tensor.bytes()).bytes();
}

std::string sequence_type(const std::string& element) {
  return Message().text(4, Message().text(1, element).bytes()).bytes();
}

std::string optional_type(const std::string& element) {
  return Message().text(9, Message().text(1, element).bytes()).bytes();
}

at::Tensor model(const std::vector<Operator>& operators, const std::vector<Info>& inputs,
                 const std::vector<Info>& outputs, const std::vector<Initializer>& initializers) {
  Message graph;
  for (const Operator& node : operators) {
    graph.text(1, operator_bytes(node));
  }
  graph.text(2, "graph");
  for (const Initializer& initializer : initializers) {
    graph.text(5, initializer_bytes(initializer));
  }
  for (const Info& info : inputs) {
    graph.text(11, info_bytes(info));
  }
  for (const Info& info : outputs) {
    graph.text(12, info_bytes(info));
  }
  const std::string opset = Message().text(1, "").number(2, 21).bytes();
  const std::string bytes = Message().number(1, 10).text(7, graph.bytes()).text(8, opset).bytes();
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::memcpy(tensor.mutable_data_ptr(), bytes.data(), bytes.size());
  return tensor;
}

at::Tensor add(const Shape& shape) {
  const std::string type = tensor_type(kFloat, shape);
  return model({{"Add", {"a", "b"}, {"c"}}}, {{"a", type}, {"b", type}}, {{"c", type}});
}

at::Tensor subtract() {
  return model({{"Sub", {"left", "right"}, {"difference"}}}, {{"left"}, {"right"}},
               {{"difference"}});
}

at::Tensor unary(const std::string& operation, int32_t element, const Shape& shape) {
  const std::string type = tensor_type(element, shape);
  return model({{operation, {"x"}, {"y"}}}, {{"x", type}}, {{"y", type}});
}

at::Tensor external_weight(const std::string& location) {
  return model({{"Add", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}},
               {{.name = "w", .value = at::empty({2}), .location = location}});
}

at::Tensor pass_through(int32_t element, const Shape& shape) {
  const std::string type = tensor_type(element, shape);
  return model({}, {{"x", type}}, {{"x", type}});
}

at::Tensor with_other(const Operator& operation, const std::string& type) {
  return model({{"Relu", {"x"}, {"y"}}, operation}, {{"x", tensor_type(kFloat, Shape({"n"}))}},
               {{"y"}, {"other", type}});
}

}  // namespace ortdl::test::onnx
