#include "shapes_check.h"

#include <ATen/ops/zeros.h>
#include <ortdl/element_type.h>

#include <algorithm>
#include <cctype>
#include <set>
#include <string>

#include "check.h"
#include "message.h"

namespace ortdl::fuzz {
namespace {

// Takes values of the grammar that shapes are written in off the front; false where there is none.
class Json {
 public:
  explicit Json(std::string_view text) : rest_(text) {}

  bool whole() { return value() && rest_.empty(); }

 private:
  bool take(std::string_view text) {
    const bool is_next = rest_.starts_with(text);
    rest_.remove_prefix(is_next ? text.size() : 0);
    return is_next;
  }

  bool value() {
    if (rest_.starts_with('"')) {
      return string();
    }
    if (take("{")) {
      return list("}", [this] { return string() && take(": ") && value(); });
    }
    if (take("[")) {
      return list("]", [this] { return value(); });
    }
    return take("null") || number();
  }

  template <typename Item>
  bool list(std::string_view end, Item&& item) {
    if (take(end)) {
      return true;
    }
    while (item()) {
      if (take(end)) {
        return true;
      }
      if (!take(", ")) {
        return false;
      }
    }
    return false;
  }

  bool number() {
    const size_t digits = std::min(rest_.find_first_not_of("0123456789"), rest_.size());
    rest_.remove_prefix(digits);
    return digits > 0;
  }

  bool string() {
    if (!take("\"")) {
      return false;
    }
    while (!rest_.empty() && static_cast<unsigned char>(rest_.front()) >= 0x20) {
      if (take("\"")) {
        return true;
      }
      if (take("\\u")) {
        const std::string_view digits = rest_.substr(0, 4);
        if (digits.size() < 4 ||
            digits.find_first_not_of("0123456789abcdef") != std::string_view::npos) {
          return false;
        }
      } else if (take("\\") && !rest_.starts_with('"') && !rest_.starts_with('\\')) {
        return false;
      }
      rest_.remove_prefix(1);
    }
    return false;
  }

  std::string_view rest_;
};

std::string field_in(const std::string& message, uint64_t number) {
  for (const Field& field : fields_of(message).value_or(Fields())) {
    if (field.number == number && field.type == kBytes) {
      return field.bytes;
    }
  }
  return {};
}

// A ValueInfoProto, of a tensor or not.
Node node_of(const std::string& info) {
  Node node{.name = field_in(info, 1), .type = "tensor(string)"};
  const std::string tensor = field_in(field_in(info, 2), 1);
  for (const Field& field : fields_of(tensor).value_or(Fields())) {
    for (const ElementType& type : element_types()) {
      if (field.number == 1 && field.varint == static_cast<uint64_t>(type.onnx)) {
        node.element = &type;
        node.type = std::string("tensor(") + type.name + ")";
      }
    }
  }
  for (const Field& dimension : fields_of(field_in(tensor, 2)).value_or(Fields())) {
    int64_t size = -1;
    for (const Field& field : fields_of(dimension.bytes).value_or(Fields())) {
      if (field.number == 1 && field.type == kVarint) {
        size = static_cast<int64_t>(field.varint);
      }
    }
    node.shape.push_back(size);
    node.symbols.push_back(field_in(dimension.bytes, 2));
  }
  return node;
}

// The size that a name, or a dimension without one, stands for.
int64_t size_of(const Node& node, size_t i) {
  if (node.shape[i] >= 0) {
    return node.shape[i];
  }
  int64_t size = 0;
  for (const char letter : node.symbols[i]) {
    size = (size * 7 + letter) & 3;
  }
  return size;
}

std::vector<int64_t> sizes_of(const Node& node) {
  std::vector<int64_t> sizes;
  for (size_t i = 0; i < node.shape.size(); ++i) {
    sizes.push_back(size_of(node, i));
  }
  return sizes;
}

bool is_small(const Node& node) {
  return node.shape.size() <= 6 &&
         std::ranges::all_of(node.shape, [](int64_t size) { return size < 1000; }) &&
         (node.element == nullptr || node.element->per_scalar() == 1);
}

at::Tensor of_sizes(const std::vector<int64_t>& sizes) {
  return at::zeros(std::vector<int64_t>(sizes.size(), 1)).expand(sizes);
}

std::vector<at::Tensor> tensors_of(const std::vector<Node>& nodes) {
  std::vector<at::Tensor> tensors;
  std::ranges::transform(nodes, std::back_inserter(tensors),
                         [](const Node& node) { return of_sizes(sizes_of(node)); });
  return tensors;
}

void check_sizes(const GraphShapes& shapes, const std::vector<Node>& inputs,
                 const std::vector<Node>& outputs) {
  if (!std::ranges::all_of(inputs, is_small) || !std::ranges::all_of(outputs, is_small)) {
    return;
  }
  const std::vector<at::Tensor> given = tensors_of(inputs);
  std::vector<at::Tensor> made = tensors_of(outputs);
  require(succeeds([&] { shapes.check(given, made); }), "what was declared passes");
  for (size_t output = 0; output < outputs.size(); ++output) {
    for (size_t i = 0; i < outputs[output].shape.size(); ++i) {
      if (outputs[output].shape[i] >= 0) {
        std::vector<int64_t> other = sizes_of(outputs[output]);
        ++other[i];
        made[output] = of_sizes(other);
        require(!succeeds([&] { shapes.check(given, made); }), "another size is refused");
        return;
      }
    }
  }
}

}  // namespace

void check_shapes(const std::vector<Node>& inputs, const std::vector<Node>& outputs) {
  const GraphShapes shapes(inputs, outputs);
  require(Json(shapes.json()).whole(), "shapes are written as JSON", shapes.json().c_str());
  std::set<std::string> known;
  for (const Node& input : inputs) {
    for (size_t i = 0; i < input.shape.size(); ++i) {
      if (input.shape[i] < 0 && !input.symbols[i].empty()) {
        known.insert(input.symbols[i]);
      }
    }
  }
  for (size_t output = 0; output < outputs.size(); ++output) {
    const Node& node = outputs[output];
    bool follows = !node.shape.empty();
    for (size_t i = 0; i < node.shape.size(); ++i) {
      follows &= node.shape[i] >= 0 || known.contains(node.symbols[i]);
    }
    require(shapes.determines(output) == follows, "a shape follows if each of its sizes does");
  }
  check_sizes(shapes, inputs, outputs);
}

void check_shapes_of_model(std::string_view model) {
  std::vector<Node> inputs;
  std::vector<Node> outputs;
  const std::string graph = field_in(std::string(model), 7);
  for (const Field& field : fields_of(graph).value_or(Fields())) {
    if (field.type == kBytes && (field.number == 11 || field.number == 12)) {
      (field.number == 11 ? inputs : outputs).push_back(node_of(field.bytes));
    }
  }
  check_shapes(inputs, outputs);
}

}  // namespace ortdl::fuzz
