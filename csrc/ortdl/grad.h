#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <torch/csrc/autograd/variable.h>

/// \file
/// When autograd wants to know how elements come about, which ONNX Runtime cannot tell.
namespace ortdl {

/// Whether `tensor` requires grad while grad mode is on, or carries a forward-mode tangent.
[[nodiscard]] inline bool needs_grad(const at::Tensor& tensor) {
  const auto* meta = static_cast<const torch::autograd::AutogradMeta*>(
      tensor.unsafeGetTensorImpl()->autograd_meta());
  return meta != nullptr &&
         ((tensor.requires_grad() && at::GradMode::is_enabled()) ||
          // Asking for a tangent costs more than to see that there are none. Views get that of
          // their
          // base when they are asked.
          ((meta->fw_grad_ != nullptr || meta->is_view_) && tensor._fw_grad(0).defined()));
}

/// What to do about it, for messages.
inline constexpr const char* kGradRemedy =
    "and ONNX Runtime would compute without gradients: use tensor.detach(), or convert under "
    "torch.no_grad()";

}  // namespace ortdl
