#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/ops/clone.h>
#include <c10/core/CPUAllocator.h>
#include <malloc.h>
#include <ortdl/real_ops.h>

#include <utility>

/// \file
/// Bytes in the saved form of sessions, which may hold anything.
namespace ortdl::detail {

/// What a refusal of a saved form begins with.
inline constexpr const char* kDamaged = "the saved session is damaged: ";

/// Whether `storage` has as many bytes as it says. PyTorch believes what an archive says of their
/// number, whatever the archive holds.
[[nodiscard]] inline bool has_its_bytes(const c10::Storage& storage) {
  if (storage.nbytes() == 0) {
    return true;
  }
  const at::DataPtr& memory = storage.data_ptr();
  // What PyTorch's own allocator gave is malloc's, which knows how much it was.
  const bool known = memory.get_deleter() == c10::GetDefaultCPUAllocator()->raw_deleter();
  return memory.get() != nullptr &&
         (!known || malloc_usable_size(memory.get_context()) >= storage.nbytes());
}

/// Whether `tensor` is flat memory of as many bytes as it says.
[[nodiscard]] inline bool holds_bytes(const at::Tensor& tensor) {
  if (!tensor.defined() || tensor.layout() != at::kStrided || !tensor.has_storage() ||
      !tensor.is_cpu() || tensor.scalar_type() != at::kByte || tensor.dim() != 1 ||
      !tensor.is_contiguous()) {
    return false;
  }
  // A storage may have shrunk under its tensor.
  const int64_t end = tensor.storage_offset() + tensor.numel();
  return tensor.numel() == 0 ||
         (static_cast<size_t>(end) <= tensor.storage().nbytes() && has_its_bytes(tensor.storage()));
}

/// `bytes`, or a copy if others hold them, who may change them. A copy too if they begin within
/// their storage, where elements may be misaligned.
[[nodiscard]] inline at::Tensor owned(at::Tensor& bytes) {
  const RealOps real;
  return bytes.use_count() == 1 && bytes.storage().use_count() == 1 && bytes.storage_offset() == 0
             ? std::move(bytes)
             : bytes.clone();
}

}  // namespace ortdl::detail
