#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/value.h>

/// \file
/// Which tensors may lend their memory, and what is lent instead where a copy is allowed.
namespace ortdl {

namespace detail {
[[nodiscard]] at::Tensor make_shareable(const at::Tensor& tensor, Copy copy);
[[nodiscard]] bool is_shareable(const at::Tensor& tensor) noexcept;
}  // namespace detail

/// `tensor` itself if its memory can be read as a dense C-contiguous array, else (and always with
/// `Copy::kAlways`) a copy that can.
/// \throws as `Value::from_tensor` does, but for an unsupported dtype of a plain tensor.
[[nodiscard]] inline at::Tensor shareable(const at::Tensor& tensor, Copy copy) {
  if (copy != Copy::kAlways && detail::is_shareable(tensor)) [[likely]] {
    return tensor;
  }
  return detail::make_shareable(tensor, copy);
}

}  // namespace ortdl
