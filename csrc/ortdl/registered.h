#pragma once

/// \file
/// Whether PyTorch knows this library.
namespace ortdl {

namespace detail {
/// Set while the library is loaded, before anyone can ask.
inline bool registration_failed = false;
}  // namespace detail

/// \throws c10::Error if PyTorch got `torch.ops.ortdl` from another copy of this library, which
///   the process loaded from another file.
void require_registered();

}  // namespace ortdl
