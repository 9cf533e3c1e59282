#include <ortdl/outputs.h>
#include <ortdl/text.h>
#include <ortdl/type_string.h>
#include <ortdl/wording.h>

#include <algorithm>

namespace ortdl {

bool is_nested(const Node& node) noexcept {
  const auto is_a = [&node](const char* kind) { return !inner_type(node.type, kind).empty(); };
  return node.type == "tensor(string)" || is_a("seq") || is_a("map") || is_a("optional");
}

void require_dense(const Node& node, const std::vector<Node>& outputs) {
  TORCH_CHECK_TYPE(is_dense(node), "the output '", node.name, "' is ", with_article(node.type),
                   ", which PyTorch has no tensor for: ",
                   is_nested(node)
                       ? "call the session itself, in eager code, which gives lists, dicts and None"
                       : "run this model with onnxruntime",
                   ", or ask for other outputs with session.run([names], feeds). "
                   "The model's outputs are: ",
                   describe(outputs));
}

at::Tensor owned_tensor(const Session::Values& values, size_t i, const Feeds& feeds) {
  // An output asked for twice, or declared twice, is one piece of memory.
  const void* data = values[i]->data();
  const auto is_same = [data](const ValuePtr& other) { return other->address() == data; };
  const bool shared =
      feeds.overlaps(data) || std::any_of(values.begin(), values.begin() + i, is_same);
  return values[i]->to_tensor(shared ? Copy::kAlways : Copy::kNever);
}

}  // namespace ortdl
