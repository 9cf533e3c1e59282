#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>
#include <ortdl/element_type.h>
#include <ortdl/live.h>
#include <ortdl/owner.h>
#include <ortdl/runtime.h>
#include <ortdl/stream_use.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

/// \file
/// Tensor -> OrtValue -> tensor without a copy, and who keeps what alive.
namespace ortdl {

/// Whether a conversion may copy the elements.
enum class Copy : uint8_t {
  kNever,     ///< share memory or throw
  kIfNeeded,  ///< share memory where possible
  kAlways,    ///< never share memory
};

/// `copy` as Python spells it: False, None or True.
[[nodiscard]] constexpr Copy copy_policy(std::optional<bool> copy) noexcept {
  if (!copy.has_value()) {
    return Copy::kIfNeeded;
  }
  return *copy ? Copy::kAlways : Copy::kNever;
}

/// An OrtValue, as C++, TorchScript (`torch.classes.ortdl.OrtValue`) and Python hold it.
///
/// The OrtValue owns the memory it points to: a tensor's storage lives until both the value and
/// everything made from it are gone, whichever goes last. Immutable but for the elements; safe to
/// read from any thread and to release on any thread, without Python's GIL.
///
/// A value on an accelerator remembers the stream that its elements depend on: the one that was
/// current when it was made. Whoever reads them on another stream is ordered after it by an event.
class Value final : public torch::CustomClassHolder {
 public:
  /// Take over an OrtValue of any kind, such as an output of ONNX Runtime, or null: an optional
  /// value with nothing in it. On an accelerator the elements depend on `home`, or on the stream
  /// that is current now, and `reuser` gets the memory back.
  explicit Value(ValueHandle handle, std::optional<c10::Stream> home = std::nullopt,
                 std::shared_ptr<const Reuser> reuser = nullptr);
  /// Take over an OrtValue of a tensor that `layout` describes; `version` counts writes to it.
  /// `use` is given for device memory only.
  Value(ValueHandle handle, const Layout& layout, std::unique_ptr<StreamUse> use = nullptr,
        c10::VariableVersion version = c10::VariableVersion(0));
  Value(const Value&) = delete;
  Value(Value&&) = delete;
  Value& operator=(const Value&) = delete;
  Value& operator=(Value&&) = delete;
  ~Value() override = default;

  /// A value of `tensor`: same shape (last dimension doubled for float4_e2m1fn_x2), same memory
  /// unless `copy` makes another.
  ///
  /// A storage that is shared is marked as not resizable, as `Tensor.numpy()` does, so that
  /// PyTorch refuses to free it under the value.
  /// \throws c10::BufferError if the tensor has no memory to share (sparse, meta, fake, ...),
  ///   requires grad while grad mode is on, or has a pending negation or conjugation and
  ///   `copy` is `kNever`.
  /// \throws c10::TypeError if ONNX Runtime lacks its dtype.
  /// \throws c10::ValueError if `copy` is `kNever` and the layout would need a copy, or the
  ///   device is not supported.
  [[nodiscard]] static c10::intrusive_ptr<Value> from_tensor(const at::Tensor& tensor,
                                                             Copy copy = Copy::kNever);

  /// A value of packed elements (4 or 2 bits each) over `bytes`, a flat contiguous uint8 tensor
  /// whose memory is shared.
  /// \throws c10::TypeError unless `type` is a packed type and `bytes` is uint8.
  /// \throws c10::ValueError unless `bytes` is flat and has just the bytes that `shape` needs.
  [[nodiscard]] static c10::intrusive_ptr<Value> from_packed(const at::Tensor& bytes,
                                                             const ElementType& type,
                                                             at::IntArrayRef shape);

  /// A tensor of this value: same memory, unless `copy` is `kAlways`, or is `kIfNeeded` and the
  /// value is read-only.
  /// \throws c10::BufferError if the value is read-only and `copy` is `kNever`.
  /// \throws c10::TypeError if the value is no tensor, or PyTorch has no dense tensor of its type.
  [[nodiscard]] at::Tensor to_tensor(Copy copy = Copy::kNever) const;

  /// The elements' bytes as a flat uint8 tensor that shares their memory, for every type.
  /// \throws c10::TypeError if the value is no tensor.
  /// \throws c10::BufferError if it is read-only.
  [[nodiscard]] at::Tensor packed() const;

  /// A value of `layout`'s type, sizes and device that takes over the memory of `bytes`, a flat
  /// uint8 tensor that nobody else uses.
  [[nodiscard]] static c10::intrusive_ptr<Value> of_bytes(const at::Tensor& bytes, Layout layout);

  /// The same elements in memory of their own on `device`, for every type of tensor. Copying from
  /// or to the CPU makes the host wait for an accelerator.
  /// \throws c10::TypeError if the value is no tensor, c10::ValueError if `device` is not usable,
  ///   c10::Error if the host would have to wait while the current stream is being captured.
  [[nodiscard]] c10::intrusive_ptr<Value> to(at::Device device) const;
  [[nodiscard]] c10::intrusive_ptr<Value> clone() const { return to(device()); }

  /// A value of type `type` over the same memory, which it keeps alive.
  /// \throws c10::TypeError unless both types have the same width.
  [[nodiscard]] c10::intrusive_ptr<Value> reinterpreted(const ElementType& type) const;

  /// As `packed`, but of read-only values too: for reading only.
  [[nodiscard]] at::Tensor bytes() const;

  /// Whether the elements must not be written to, as their owner said.
  [[nodiscard]] bool read_only() const noexcept { return read_only_; }
  /// The value's kind: tensor, sparse tensor, sequence, map, optional, opaque.
  [[nodiscard]] ONNXType kind() const noexcept { return kind_; }
  [[nodiscard]] bool is_tensor() const noexcept { return kind_ == ONNX_TYPE_TENSOR; }
  /// False for an optional value with nothing in it.
  [[nodiscard]] bool has_value() const;

  /// The element type. \throws c10::TypeError if the value is no tensor, or of an unsupported type.
  [[nodiscard]] const ElementType& type() const;
  /// The logical shape. \throws c10::TypeError if the value is no tensor.
  [[nodiscard]] at::IntArrayRef sizes() const;
  /// Where the elements are. \throws c10::TypeError if the value is no tensor.
  [[nodiscard]] at::Device device() const;
  /// The address of the first element. \throws c10::TypeError if the value is no tensor.
  [[nodiscard]] void* data() const;
  /// The same; null if the value has no such element.
  [[nodiscard]] void* address() const noexcept { return data_; }
  /// Bytes that the elements take. \throws c10::TypeError if the value is no tensor.
  [[nodiscard]] size_t nbytes() const;
  /// The type as onnxruntime spells it, such as "tensor(float)".
  [[nodiscard]] std::string type_string() const;

  /// The stream whose work the elements depend on; nothing on the CPU.
  [[nodiscard]] std::optional<c10::Stream> stream() const noexcept;
  /// Let `reader`, a stream of the value's accelerator, wait until the elements are there, and let
  /// the memory not be reused before the work that follows on it is done. On the CPU, nothing.
  /// \throws c10::Error as `order` does, under graph capture above all.
  void order_before(c10::Stream reader) const;
  /// The same for the stream that is current on the value's accelerator, for readers who order
  /// themselves after that one.
  void order_before_current() const;

  /// Copy the elements of `source`, which may overlap or be on another device, into this value's
  /// memory, and say so to autograd. \throws c10::BufferError if this value is read-only,
  /// c10::TypeError for another
  ///   element type, c10::ValueError for another shape.
  void update(const Value& source);
  /// As above, from a tensor of any layout. \throws also as `from_tensor` does.
  void update(const at::Tensor& source);

  /// Say to autograd that the elements were written to; the tensor that this value was made from
  /// and every tensor made from it share one version.
  void bump_version() const;

  /// Let autograd take the elements for new ones. Nothing else may hold them.
  void renew_version() {
    if (version_.current_version() != 0) {
      version_ = c10::VariableVersion(0);
    }
  }

  /// The OrtValue itself, owned by this object.
  [[nodiscard]] ::OrtValue* handle() const noexcept { return handle_.get(); }

 private:
  static c10::intrusive_ptr<Value> share(const at::Tensor& tensor, const ElementType& type,
                                         at::IntArrayRef sizes);
  void require_writable(const ElementType& type, at::IntArrayRef sizes) const;
  void write(const void* source, at::Device device);
  void require_tensor() const;
  void read_tensor();
  [[nodiscard]] c10::Storage storage() const;
  [[nodiscard]] at::Tensor view(at::IntArrayRef sizes, at::ScalarType scalar) const;

  detail::Counted<detail::Kind::kValue> counted_;
  ValueHandle handle_;
  std::unique_ptr<StreamUse> use_;  // null on the CPU
  // What ONNX Runtime would answer about the value, asked once: it cannot change.
  const ElementType* type_ = nullptr;
  void* data_ = nullptr;
  at::Device device_ = at::kCPU;
  ONNXType kind_ = ONNX_TYPE_TENSOR;
  bool read_only_ = false;
  c10::SmallVector<int64_t, 5> sizes_;
  // Never disabled: every tensor of this memory has it, so that autograd sees each write.
  c10::VariableVersion version_;
};

using ValuePtr = c10::intrusive_ptr<Value>;

namespace detail {
/// A flat uint8 tensor over memory that outlives it and is only read.
[[nodiscard]] at::Tensor bytes_at(const void* data, size_t count, at::Device device);
}  // namespace detail

}  // namespace ortdl
