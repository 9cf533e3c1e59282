#pragma once

#include <ATen/dlpack.h>
#include <ortdl/foreign.h>
#include <ortdl/value.h>

#include <variant>

/// \file
/// DLPack structs <-> values. Source of the rules: dlpack.h 1.3 and the Python array API standard.
namespace ortdl {

/// The flags of DLManagedTensorVersioned.
inline constexpr uint64_t kDlpackReadOnly = DLPACK_FLAG_BITMASK_READ_ONLY;
inline constexpr uint64_t kDlpackCopied = DLPACK_FLAG_BITMASK_IS_COPIED;
inline constexpr uint64_t kDlpackPadded = DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED;

/// Owns a DLPack struct of either kind; gives it back to its producer once.
class ManagedTensor {
 public:
  explicit ManagedTensor(DLManagedTensor* legacy) noexcept : managed_(legacy) {}
  explicit ManagedTensor(DLManagedTensorVersioned* versioned) noexcept : managed_(versioned) {}
  ManagedTensor(ManagedTensor&& other) noexcept;
  ManagedTensor& operator=(ManagedTensor&&) = delete;
  ManagedTensor(const ManagedTensor&) = delete;
  ManagedTensor& operator=(const ManagedTensor&) = delete;
  ~ManagedTensor();

  [[nodiscard]] const DLTensor& tensor() const noexcept;
  [[nodiscard]] uint64_t flags() const noexcept;

 private:
  std::variant<DLManagedTensor*, DLManagedTensorVersioned*> managed_;
};

/// Check that a value can be made of `tensor` under `copy`; reads the struct, takes nothing.
/// \throws c10::TypeError for an element type without counterpart, c10::ValueError for fields that
///   make no sense, a device that this PyTorch does not have, or a layout that would need a copy
///   where `copy` is `kNever`; c10::BufferError for unknown or padding flags.
void validate_dlpack(const DLTensor& tensor, uint64_t flags, Copy copy);

/// A value of a struct that `validate_dlpack` accepted: over its memory, or of a copy where `copy`
/// says so or the layout needs one. Gives the struct back when the value dies, or now if it was
/// copied or on failure.
///
/// Device memory must be ready for the stream that is current on its device; the value's elements
/// then depend on that stream.
[[nodiscard]] ValuePtr from_dlpack(ManagedTensor managed, Copy copy);

/// Whether `from_dlpack` shares the memory of `tensor`, which `validate_dlpack` accepted, or
/// copies.
[[nodiscard]] bool shares_memory(const DLTensor& tensor, uint64_t flags, Copy copy);

/// A value of a copy of what `tensor` holds, which `validate_dlpack` accepted and which stays the
/// caller's. Device memory as in `from_dlpack`.
[[nodiscard]] ValuePtr copy_of_dlpack(const DLTensor& tensor);

/// A value with memory of its own, not set, of the type, shape and device of `prototype`, whose
/// other fields do not count. \throws as `validate_dlpack` does.
[[nodiscard]] ValuePtr make_uninitialized(const DLTensor& prototype);

/// A new struct over `value`'s memory, which it keeps alive; its deleter may run on any thread.
/// No stream is ordered: see `Value::order_before`.
/// \throws c10::TypeError if the value is no tensor of a supported type.
/// \param flags More flags than those that the value has itself.
[[nodiscard]] DLManagedTensorVersioned* to_dlpack_versioned(ValuePtr value, uint64_t flags = 0);
/// As above, in the older struct. \throws c10::BufferError also if the value is read-only, which
///   that struct cannot say.
[[nodiscard]] DLManagedTensor* to_dlpack_legacy(ValuePtr value);

/// Where `value` is, in DLPack's terms. \throws c10::TypeError if it is no tensor.
[[nodiscard]] DLDevice dlpack_device(const Value& value);

}  // namespace ortdl
