#pragma once

#include <Python.h>
#include <ortdl/dlpack.h>

#include <optional>

/// \file
/// DLPack's structs as Python capsules: who owns the struct is told by the capsule's name.
namespace ortdl::python {

/// A capsule over `value`'s memory: versioned with `flags`, or of the older kind.
/// \throws python_error, and as `to_dlpack_versioned` and `to_dlpack_legacy` do.
[[nodiscard]] PyObject* make_capsule(ValuePtr value, bool versioned, uint64_t flags = 0);

/// What an importer is asked for.
struct Delivery {
  Copy copy = Copy::kIfNeeded;
  std::optional<at::Device> device;  ///< where the value is to be; nothing: where the memory is
};

/// A value of a struct that `validate_dlpack` accepted, as `delivery` says. The GIL is released
/// while elements are copied; the struct is given back with it, at once.
[[nodiscard]] ValuePtr adopt(ManagedTensor managed, const Delivery& delivery);

/// `value`, or a copy where `delivery` asks for one; the GIL is released meanwhile.
/// \throws c10::ValueError if that takes a copy and `delivery` allows none.
[[nodiscard]] ValuePtr deliver(const ValuePtr& value, const Delivery& delivery);

/// Whether `object` is a DLPack capsule, unused, of memory elsewhere than on the host.
[[nodiscard]] bool is_on_device(PyObject* object);

/// A value of what `capsule` holds. Until it is known to be usable, the capsule stays as it was;
/// then it is marked as used before anything else happens.
/// \param expected The device that the producer named, if it did.
/// \throws c10::TypeError for no capsule or one of another kind, c10::ValueError for a used one,
///   c10::BufferError for a newer major version, and as `validate_dlpack` and `deliver` do.
[[nodiscard]] ValuePtr take_capsule(PyObject* capsule, const Delivery& delivery,
                                    std::optional<DLDevice> expected = std::nullopt);

}  // namespace ortdl::python
