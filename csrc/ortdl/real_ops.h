#pragma once

#include <c10/core/impl/LocalDispatchKeySet.h>

/// \file
/// Ops of PyTorch's that are done to memory here, and are no part of the caller's program.
namespace ortdl {

/// While one lives, the ops of this thread compute, whatever else would be made of the caller's
/// own: FakeTensorMode and other dispatch modes, torch.func and functionalization would give
/// tensors without memory.
class RealOps {
  c10::impl::ExcludeDispatchKeyGuard excluded_{
      c10::python_ks |
      c10::DispatchKeySet({c10::DispatchKey::PythonDispatcher, c10::DispatchKey::PreDispatch,
                           c10::DispatchKey::Functionalize, c10::DispatchKey::FuncTorchVmapMode,
                           c10::DispatchKey::FuncTorchDynamicLayerFrontMode,
                           c10::DispatchKey::FuncTorchDynamicLayerBackMode})};
};

}  // namespace ortdl
