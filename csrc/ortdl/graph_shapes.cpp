#include <c10/core/ScalarType.h>
#include <ortdl/graph_shapes.h>

#include <algorithm>
#include <iomanip>
#include <sstream>
#include <string_view>

namespace ortdl {
namespace {

constexpr int64_t kOpen = -1;

std::string text_to_json(std::string_view text) {
  std::ostringstream json;
  json << '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json << '\\' << c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json << "\\u" << std::hex << std::setw(4) << std::setfill('0') << static_cast<int>(c);
    } else {
      json << c;
    }
  }
  json << '"';
  return json.str();
}

template <typename Items, typename Write>
std::string list(const Items& items, Write&& write) {
  std::string json = "[";
  for (const auto& item : items) {
    json += (json.size() == 1 ? "" : ", ") + write(item);
  }
  return json + "]";
}

std::string dimension(const Node& node, size_t i) {
  if (node.shape[i] >= 0) {
    return std::to_string(node.shape[i]);
  }
  return node.symbols[i].empty() ? "null" : text_to_json(node.symbols[i]);
}

std::string to_json(const Node& node) {
  const bool dense = node.element != nullptr && node.element->scalar != at::ScalarType::Undefined;
  std::vector<size_t> indices(node.shape.size());
  std::ranges::generate(indices, [i = size_t{0}]() mutable { return i++; });
  return R"({"name": )" + text_to_json(node.name) + R"(, "type": )" + text_to_json(node.type) +
         R"(, "dtype": )" +
         (dense ? text_to_json(c10::getDtypeNames(node.element->scalar).first) : "null") +
         R"(, "device": )" + text_to_json(node.device.str()) + R"(, "shape": )" +
         list(indices, [&](size_t i) { return dimension(node, i); }) + "}";
}

}  // namespace

GraphShapes::GraphShapes(const std::vector<Node>& inputs, const std::vector<Node>& outputs)
    : inputs_(declared(inputs)),
      outputs_(declared(outputs)),
      json_(R"({"inputs": )" + list(inputs, to_json) + R"(, "outputs": )" + list(outputs, to_json) +
            "}") {}

void GraphShapes::check(at::TensorList inputs, at::TensorList outputs) const {
  Bound bound(names_.size(), kOpen);
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_VALUE(inputs_[i].shape.empty() || matches(inputs_[i], inputs[i].sizes(), bound),
                      "the input ", inputs_[i].text, " was given with shape ", inputs[i].sizes(),
                      ", but an input before it has another size where the model uses the same "
                      "name: give one size to each name");
  }
  for (size_t i = 0; i < outputs.size(); ++i) {
    TORCH_CHECK(matches(outputs_[i], outputs[i].sizes(), bound), "the model declares the output ",
                outputs_[i].text, ", but gave one of shape ", outputs[i].sizes(),
                " for these inputs. torch.ops.ortdl.run, torch.compile and torch.export rely on "
                "what a model declares: correct its output's shape (a name of its own stands for "
                "any size; [] also is what ONNX Runtime reports for an open rank), or call the "
                "session itself, outside of compiled code");
  }
}

bool GraphShapes::determines(size_t output) const {
  const auto is_known = [this](const Dimension& wanted) {
    return wanted.size != kOpen || std::ranges::any_of(inputs_, [&](const Declared& input) {
             return wanted.name != kOpen &&
                    std::ranges::find(input.shape, wanted.name, &Dimension::name) !=
                        input.shape.end();
           });
  };
  // ONNX Runtime reports rank 0 for an open rank too.
  const std::vector<Dimension>& shape = outputs_[output].shape;
  return !shape.empty() && std::ranges::all_of(shape, is_known);
}

std::vector<GraphShapes::Declared> GraphShapes::declared(const std::vector<Node>& nodes) {
  std::vector<Declared> result;
  for (const Node& node : nodes) {
    Declared& entry = result.emplace_back(
        Declared{node.describe(), node.element != nullptr ? node.element->per_scalar() : 1, {}});
    for (size_t i = 0; i < node.shape.size(); ++i) {
      const std::string& name = node.symbols[i];
      if (node.shape[i] >= 0 || name.empty()) {
        entry.shape.push_back({std::max(node.shape[i], kOpen), kOpen});
        continue;
      }
      const auto found = std::ranges::find(names_, name);
      entry.shape.push_back({kOpen, found - names_.begin()});
      if (found == names_.end()) {
        names_.push_back(name);
      }
    }
  }
  return result;
}

bool GraphShapes::matches(const Declared& node, at::IntArrayRef sizes, Bound& bound) {
  if (sizes.size() != node.shape.size()) {
    return false;
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    const int64_t size = i + 1 == sizes.size() ? sizes[i] * node.per_scalar : sizes[i];
    const auto [fixed, name] = node.shape[i];
    if (name == kOpen) {
      if (fixed != kOpen && fixed != size) {
        return false;
      }
      continue;
    }
    int64_t& known = bound[static_cast<size_t>(name)];
    if (known != kOpen && known != size) {
      return false;
    }
    known = size;
  }
  return true;
}

}  // namespace ortdl
