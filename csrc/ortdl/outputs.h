#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/feeds.h>
#include <ortdl/node.h>
#include <ortdl/session.h>

#include <cstddef>
#include <vector>

/// \file
/// What a session's outputs are to those who take them.
namespace ortdl {

/// Whether PyTorch has a dense tensor of what `node` declares.
[[nodiscard]] inline bool is_dense(const Node& node) noexcept {
  return node.element != nullptr && node.element->scalar != at::ScalarType::Undefined;
}

/// Whether `node` declares strings, a sequence, a map or an optional value.
[[nodiscard]] bool is_nested(const Node& node) noexcept;

/// \throws c10::TypeError that names `node`, one of a model's `outputs`, unless it is dense.
void require_dense(const Node& node, const std::vector<Node>& outputs);

/// The tensor of `values[i]`, whose memory is nobody else's: copied if it is that of an input, or
/// of an output before it. `values` are what `Session::run_values(feeds, outputs)` gave.
/// \throws as `Value::to_tensor` does.
[[nodiscard]] at::Tensor owned_tensor(const Session::Values& values, size_t i, const Feeds& feeds);

}  // namespace ortdl
