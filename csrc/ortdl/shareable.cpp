#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ortdl/grad.h>
#include <ortdl/real_ops.h>
#include <ortdl/shareable.h>

namespace ortdl {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;

// Tensors whose memory is not, or not simply, their elements.
constexpr DispatchKeySet kIndirect({
    DispatchKey::Sparse,
    DispatchKey::SparseCsr,
    DispatchKey::MkldnnCPU,
    DispatchKey::Quantized,
    DispatchKey::NestedTensor,
    DispatchKey::Fake,
    DispatchKey::Python,
    DispatchKey::Functionalize,
    DispatchKey::Conjugate,
    DispatchKey::Negative,
    DispatchKey::ZeroTensor,
    DispatchKey::FuncTorchBatched,
    DispatchKey::Batched,
    DispatchKey::BatchedNestedTensor,
    DispatchKey::FuncTorchGradWrapper,
});

// Whether the elements in memory are not the tensor's values.
bool is_lazy(const at::Tensor& tensor) {
  return tensor.is_neg() || tensor.is_conj() || tensor._is_zerotensor();
}

// The same for any strides: PyTorch lets a storage shrink under a tensor.
void require_all_bytes(const at::Tensor& tensor) {
  const size_t needed = at::detail::computeStorageNbytes(
      tensor.sizes(), tensor.strides(), tensor.itemsize(), tensor.storage_offset());
  TORCH_CHECK_BUFFER(tensor.numel() == 0 || needed <= tensor.storage().nbytes(),
                     "the tensor's storage has ", tensor.storage().nbytes(),
                     " bytes, too few for its shape ", tensor.sizes(), " (", needed,
                     "): it was resized, so there is no memory to share");
}

// A subclass with __torch_dispatch__ may have real memory or only pretend to.
bool pretends_memory(const at::Tensor& tensor) {
  if (!tensor.has_storage() || tensor.storage().device() != tensor.device()) {
    return true;
  }
  return tensor.storage().data() == nullptr && tensor.storage().sym_nbytes() != 0;
}

void refuse_indirect(const at::Tensor& tensor) {
  const DispatchKeySet keys = tensor.key_set();
  TORCH_CHECK_BUFFER(!keys.has_any(DispatchKeySet({DispatchKey::Sparse, DispatchKey::SparseCsr})),
                     "a sparse tensor (layout ", tensor.layout(),
                     ") has no dense memory to share: use tensor.to_dense()");
  TORCH_CHECK_BUFFER(!keys.has(DispatchKey::MkldnnCPU),
                     "an MKL-DNN tensor hides its memory: use tensor.to_dense()");
  TORCH_CHECK_TYPE(!keys.has(DispatchKey::Quantized),
                   "ONNX Runtime has no element type for a "
                   "quantized tensor of dtype ",
                   tensor.scalar_type(), ": use tensor.int_repr() or tensor.dequantize()");
  TORCH_CHECK_BUFFER(
      !keys.has(DispatchKey::NestedTensor) && !keys.has(DispatchKey::BatchedNestedTensor),
      "a nested tensor is not one dense array: convert its parts one by one, or "
      "use tensor.to_padded_tensor(padding)");
  TORCH_CHECK_BUFFER(!tensor.is_meta(), "a tensor on the meta device has no memory to share");
  TORCH_CHECK_BUFFER(!keys.has(DispatchKey::Functionalize),
                     "a functional tensor (inside torch.func.functionalize or a compiler's trace) "
                     "has no memory of its own to share");
  TORCH_CHECK_BUFFER(
      !keys.has_any(DispatchKeySet({DispatchKey::FuncTorchBatched, DispatchKey::Batched,
                                    DispatchKey::FuncTorchGradWrapper})),
      "a tensor inside a torch.func transform (vmap, grad, ...) has no memory of its own to share: "
      "convert outside the transformed function");
  TORCH_CHECK_BUFFER(
      !keys.has_any(DispatchKeySet({DispatchKey::Fake, DispatchKey::Python})) ||
          !pretends_memory(tensor),
      "the tensor is fake, or of a wrapper subclass that has no memory of its own: convert the "
      "real tensor inside it");
  TORCH_CHECK_BUFFER(tensor.has_storage(), "the tensor has no storage to share");
}

// ATen copies no float4 elements, but their bytes.
at::Tensor dense_copy(const at::Tensor& tensor) {
  const at::NoGradGuard no_grad;
  const RealOps real;
  if (tensor.scalar_type() == at::ScalarType::Float4_e2m1fn_x2) {
    return tensor.view(at::kByte).clone(at::MemoryFormat::Contiguous).view(tensor.scalar_type());
  }
  return tensor.resolve_conj().resolve_neg().detach().clone(at::MemoryFormat::Contiguous);
}

// What no copy makes good.
void require_memory(const at::Tensor& tensor) {
  TORCH_CHECK_TYPE(tensor.defined(), "an undefined tensor was given: expected a tensor");
  refuse_indirect(tensor);
  static_cast<void>(element_type(tensor.scalar_type()));
  TORCH_CHECK_BUFFER(!needs_grad(tensor), "the tensor requires grad, ", kGradRemedy);
  static_cast<void>(memory_info(tensor.device()));
  require_all_bytes(tensor);
}

}  // namespace

namespace detail {

bool is_shareable(const at::Tensor& tensor) {
  return tensor.defined() && !tensor.key_set().has_any(kIndirect) &&
         holds_values(tensor.device()) && !needs_grad(tensor) && tensor.is_contiguous() &&
         has_memory(tensor);
}

at::Tensor make_shareable(const at::Tensor& tensor, Copy copy) {
  require_memory(tensor);
  const bool lazy = is_lazy(tensor);
  TORCH_CHECK_BUFFER(!lazy || copy != Copy::kNever,
                     "the tensor's elements in memory differ from its values (a pending negation "
                     "or conjugation, or a lazy zero tensor): use tensor.resolve_neg() or "
                     "tensor.resolve_conj(), or pass copy=None");
  const bool dense = tensor.is_contiguous();
  TORCH_CHECK_VALUE(dense || copy != Copy::kNever, "a tensor of shape ", tensor.sizes(),
                    " and strides ", tensor.strides(),
                    " is not contiguous, so sharing it is impossible: pass copy=None to copy where "
                    "needed, or call tensor.contiguous()");
  const bool aligned = lazy || detail::is_aligned(tensor);
  TORCH_CHECK_VALUE(aligned || copy != Copy::kNever,
                    "the tensor's memory is not aligned to its element size, so sharing it is "
                    "impossible: pass copy=None to copy where needed, or call tensor.clone()");
  return copy == Copy::kAlways || lazy || !dense || !aligned ? dense_copy(tensor) : tensor;
}

}  // namespace detail

void require_shareable(const at::Tensor& tensor) {
  if (detail::is_shareable(tensor)) {
    return;
  }
  require_memory(tensor);
  TORCH_CHECK_BUFFER(!is_lazy(tensor),
                     "the tensor's elements in memory differ from its values (a "
                     "pending negation or conjugation, or a lazy zero tensor), "
                     "and it is used where it is: give tensor.clone() instead");
  TORCH_CHECK_VALUE(tensor.is_contiguous(), "a tensor of shape ", tensor.sizes(), " and strides ",
                    tensor.strides(),
                    " is not contiguous, and it is used where it is: give a "
                    "contiguous one, as tensor.contiguous() and torch.empty(shape) are, and copy "
                    "what is written to it with tensor.copy_()");
  TORCH_CHECK_VALUE(detail::is_aligned(tensor),
                    "the tensor's memory is not aligned to its element size, and "
                    "it is used where it is: give tensor.clone() instead");
}

}  // namespace ortdl
