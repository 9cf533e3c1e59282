#pragma once

namespace ortdl::python {

/// Let the core ask torch.compiler whether a program is being exported.
void install_exporting_hook() noexcept;

}  // namespace ortdl::python
