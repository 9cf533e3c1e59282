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

/// A value of what `capsule` holds. Until it is known to be usable, the capsule stays as it was;
/// then it is marked as used before anything else happens.
/// \param expected The device that the producer named, if it did.
/// \throws c10::TypeError for no capsule or one of another kind, c10::ValueError for a used one,
///   c10::BufferError for a newer major version, and as `validate_dlpack` does.
[[nodiscard]] ValuePtr take_capsule(PyObject* capsule, Copy copy,
                                    std::optional<DLDevice> expected = std::nullopt);

}  // namespace ortdl::python
