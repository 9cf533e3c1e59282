#pragma once

#include <ortdl/runtime.h>

namespace ortdl::python {

/// The session options that this thread last passed through `RegisterCustomOps`, as a clone.
/// \throws c10::Error if there are none.
[[nodiscard]] SessionOptionsHandle take_captured_options();

}  // namespace ortdl::python
