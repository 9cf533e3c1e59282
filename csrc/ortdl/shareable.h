#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/value.h>

/// \file
/// Which tensors may lend their memory, and what is lent instead where a copy is allowed.
namespace ortdl {

namespace detail {
[[nodiscard]] at::Tensor make_shareable(const at::Tensor& tensor, Copy copy);
/// Whether the elements are aligned as readers of their type may assume.
[[nodiscard]] inline bool is_aligned(const at::Tensor& tensor) {
  const size_t itemsize = tensor.itemsize();  // a power of two
  return (reinterpret_cast<uintptr_t>(tensor.const_data_ptr()) & (itemsize - 1)) == 0;
}
/// Whether `contiguous`'s elements are aligned and all there: PyTorch lets a storage shrink under a
/// tensor.
[[nodiscard]] inline bool has_memory(const at::Tensor& contiguous) {
  const int64_t numel = contiguous.numel();
  return is_aligned(contiguous) &&
         (numel == 0 ||
          static_cast<size_t>(contiguous.storage_offset() + numel) * contiguous.itemsize() <=
              contiguous.storage().nbytes());
}
/// Whether `tensor`'s memory can be read as it is.
[[nodiscard]] bool is_shareable(const at::Tensor& tensor);
}  // namespace detail

/// Autograd's count of writes to `tensor`; one of its own for an inference tensor, which has none.
[[nodiscard]] inline c10::VariableVersion version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? c10::VariableVersion(0)
                               : tensor.unsafeGetTensorImpl()->version_counter();
}

/// \throws as `shareable` with `Copy::kNever` does, but speaks of no `copy`, for those who never
/// do.
void require_shareable(const at::Tensor& tensor);

/// `tensor` itself if its memory can be read as a dense C-contiguous array, else (and always with
/// `Copy::kAlways`) a copy that can, put into `copied`. The caller's own tensor comes back by
/// reference because counting one more holder of a tensor that Python knows costs as much as all
/// the checks.
/// \throws as `Value::from_tensor` does, but for an unsupported dtype of a plain tensor.
[[nodiscard]] inline const at::Tensor& shareable(const at::Tensor& tensor, Copy copy,
                                                 at::Tensor& copied) {
  if (copy != Copy::kAlways && detail::is_shareable(tensor)) [[likely]] {
    return tensor;  // NOLINT(bugprone-return-const-ref-from-parameter)
  }
  return copied = detail::make_shareable(tensor, copy);
}

}  // namespace ortdl
