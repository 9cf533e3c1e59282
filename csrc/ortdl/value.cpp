#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>
#include <c10/core/TensorOptions.h>
#include <ortdl/apart.h>
#include <ortdl/memory.h>
#include <ortdl/real_ops.h>
#include <ortdl/shareable.h>
#include <ortdl/type_string.h>
#include <ortdl/value.h>
#include <ortdl/wording.h>

#include <cstring>

namespace ortdl {
namespace {

// Copies between devices make the host wait for all that has to do with either.
void require_host_wait(const Value& value, at::Device other) {
  require_no_capture(value.device(), other);
  if (const auto home = value.stream(); home.has_value()) {
    require_no_capture(*home);
  }
}

}  // namespace

at::Tensor detail::bytes_at(const void* data, size_t count, at::Device device) {
  // PyTorch takes a pointer to change, but nobody writes to a source.
  return at::for_blob(const_cast<void*>(data), {static_cast<int64_t>(count)})
      .options(at::TensorOptions(at::kByte).device(device))
      .target_device(device)
      .make_tensor();
}

Value::Value(ValueHandle handle, std::optional<c10::Stream> home,
             std::shared_ptr<const Reuser> reuser)
    : handle_(std::move(handle)), version_(0) {
  if (!has_value()) {
    kind_ = ONNX_TYPE_OPTIONAL;  // ONNX Runtime crashes if it is asked for more
    return;
  }
  check_status(api().GetValueType(handle_.get(), &kind_));
  if (is_tensor()) {
    read_tensor();
  }
  if (!device_.is_cpu()) {
    use_ = std::make_unique<StreamUse>(home.has_value() ? *home : current_stream(device_),
                                       c10::Storage(), std::move(reuser));
  }
}

Value::Value(ValueHandle handle, const Layout& layout, std::unique_ptr<StreamUse> use,
             c10::VariableVersion version)
    : handle_(std::move(handle)),
      use_(std::move(use)),
      type_(layout.type),
      data_(layout.data),
      device_(layout.device),
      read_only_(layout.read_only),
      sizes_(layout.sizes.begin(), layout.sizes.end()),
      version_(std::move(version)) {}

void Value::read_tensor() {
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  check_status(api().GetTensorTypeAndShape(handle_.get(), &raw));
  const ShapeInfoHandle info(raw);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(api().GetTensorElementType(raw, &type));
  type_ = find_element_type(type);
  size_t rank = 0;
  check_status(api().GetDimensionsCount(raw, &rank));
  sizes_.resize(rank);
  check_status(api().GetDimensions(raw, sizes_.data(), rank));
  if (type_ == nullptr) {
    return;  // strings have no flat memory
  }
  const OrtMemoryInfo* memory = nullptr;
  check_status(api().GetTensorMemoryInfo(handle_.get(), &memory));
  device_ = device_of(memory);
  check_status(api().GetTensorMutableData(handle_.get(), &data_));
}

ValuePtr Value::share(const at::Tensor& tensor, const ElementType& type, at::IntArrayRef sizes) {
  const c10::Storage& storage = tensor.storage();
  std::unique_ptr<StreamUse> use = StreamUse::on(tensor.device(), storage);
  // From here on no other thread can free the memory; one may have done so just before.
  storage.unsafeGetStorageImpl()->set_resizable(false);
  TORCH_CHECK_BUFFER(tensor.nbytes() == 0 || tensor.nbytes() <= storage.nbytes(),
                     "the tensor's storage was resized while it was converted");
  // Materialises a copy-on-write storage.
  void* data = tensor.mutable_data_ptr();
  const Layout layout{.type = &type, .data = data, .device = tensor.device(), .sizes = sizes};
  ValueHandle handle = make_owning(storage, layout, tensor.nbytes());
  return c10::make_intrusive<Value>(std::move(handle), layout, std::move(use), version_of(tensor));
}

ValuePtr Value::from_tensor(const at::Tensor& tensor, Copy copy) {
  at::Tensor copied;
  const at::Tensor& shared = shareable(tensor, copy, copied);
  const ElementType& type = element_type(shared.scalar_type());
  if (type.per_scalar() == 1) [[likely]] {
    return share(shared, type, shared.sizes());
  }
  return share(shared, type, logical_sizes(shared.sizes(), type));
}

ValuePtr Value::from_packed(const at::Tensor& bytes, const ElementType& type,
                            at::IntArrayRef shape) {
  TORCH_CHECK_TYPE(type.packed(),
                   "from_packed makes values of int4, uint4, int2, uint2 and "
                   "float4e2m1, not of ",
                   type.name, ": use to_ortvalue for it");
  TORCH_CHECK_TYPE(bytes.defined() && bytes.scalar_type() == at::kByte,
                   "from_packed takes a tensor of dtype torch.uint8");
  TORCH_CHECK_VALUE(bytes.dim() == 1, "from_packed takes a flat tensor, not one of shape ",
                    bytes.sizes(), ": use tensor.flatten()");
  TORCH_CHECK_VALUE(bytes.is_contiguous(),
                    "the bytes are not contiguous, and from_packed shares memory: use "
                    "tensor.contiguous()");
  const int64_t count = checked_numel(shape);
  TORCH_CHECK_VALUE(static_cast<size_t>(bytes.numel()) == type.bytes(count),
                    with_article(type.name), " value of shape ", shape, " takes ",
                    type.bytes(count), " bytes, but ", bytes.numel(), " were given");
  at::Tensor copied;
  return share(shareable(bytes, Copy::kNever, copied), type, shape);
}

at::Tensor Value::to_tensor(Copy copy) const {
  const ElementType& element = type();
  const int64_t per_scalar = element.per_scalar();
  c10::SmallVector<int64_t, 5> halved;
  at::IntArrayRef shape = sizes_;
  if (element.packed()) [[unlikely]] {
    TORCH_CHECK_TYPE(element.scalar != at::ScalarType::Undefined && !sizes_.empty() &&
                         sizes_.back() % per_scalar == 0,
                     "PyTorch has no dense tensor of ", with_article(element.name),
                     " value of shape ", shape,
                     ": use OrtValue.packed() for its bytes as a flat uint8 tensor, and "
                     "OrtValue.from_packed(bytes, element_type, shape) for the way back");
    halved = sizes_;
    halved.back() /= per_scalar;
    shape = halved;
  }
  TORCH_CHECK_BUFFER(!read_only_ || copy != Copy::kNever,
                     "the value is read-only, and a tensor that shares its memory could be written "
                     "to: pass copy=True");
  at::Tensor shared = view(shape, element.scalar);
  if (copy == Copy::kAlways || read_only_) [[unlikely]] {
    at::Tensor copied;
    return shareable(shared, Copy::kAlways, copied);
  }
  return shared;
}

at::Tensor Value::packed() const {
  TORCH_CHECK_BUFFER(!read_only_,
                     "the value is read-only, and a tensor that shares its memory could be written "
                     "to: copy it with from_ortvalue(value, copy=True)");
  return bytes();
}

ValuePtr Value::of_bytes(const at::Tensor& bytes, Layout layout) {
  layout.data = bytes.numel() == 0 ? nullptr : bytes.mutable_data_ptr();
  return c10::make_intrusive<Value>(make_owning(bytes.storage(), layout, bytes.nbytes()), layout,
                                    StreamUse::on(layout.device, bytes.storage()));
}

ValuePtr Value::to(at::Device device) const {
  require_usable(device);
  if (device != device_) {
    require_host_wait(*this, device);
  }
  const RealOps real;
  const at::Tensor copy = bytes().to(device, at::kByte, /*non_blocking=*/false, /*copy=*/true);
  return of_bytes(copy, {.type = type_, .data = nullptr, .device = device, .sizes = sizes_});
}

ValuePtr Value::reinterpreted(const ElementType& type) const {
  TORCH_CHECK_TYPE(type.dlpack.bits == this->type().dlpack.bits, with_article(type_string()),
                   " cannot be read as ", type.name, ", whose elements have another width");
  const Layout layout{
      .type = &type, .data = data_, .device = device_, .sizes = sizes_, .read_only = read_only_};
  const c10::Storage storage = bytes().storage();
  return c10::make_intrusive<Value>(
      make_owning(storage, layout, nbytes()), layout,
      use_ == nullptr ? nullptr : std::make_unique<StreamUse>(use_->home(), storage), version_);
}

at::Tensor Value::bytes() const { return view({static_cast<int64_t>(nbytes())}, at::kByte); }

c10::Storage Value::storage() const {
  // A tensor over PyTorch's own memory can tell the allocator who uses it.
  if (use_ != nullptr && use_->storage() && nbytes() > 0) {
    return use_->storage();
  }
  // The elements are never const: only the value's description is.
  auto self = ValuePtr::unsafe_reclaim_from_nonowning(const_cast<Value*>(this));
  const auto release = [](void* value) {
    const auto last = ValuePtr::reclaim(static_cast<Value*>(value));
  };
  c10::DataPtr data(data_, self.release(), release, device_);
  return {c10::Storage::use_byte_size_t{}, nbytes(), std::move(data), nullptr,
          /*resizable=*/false};
}

at::Tensor Value::view(at::IntArrayRef sizes, at::ScalarType scalar) const {
  order_before_current();
  c10::Storage memory = storage();
  const auto offset =
      static_cast<const std::byte*>(data_) - static_cast<const std::byte*>(memory.data());
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(memory), c10::DispatchKeySet(c10::computeDispatchKey(scalar, {}, device_)),
      c10::scalarTypeToTypeMeta(scalar));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (offset != 0) {
    impl->set_storage_offset(offset / static_cast<int64_t>(c10::elementSize(scalar)));
  }
  if (!tensor.is_inference()) {
    impl->set_version_counter(version_);
  }
  return tensor;
}

void Value::require_tensor() const {
  TORCH_CHECK_TYPE(is_tensor(), "the OrtValue holds ", with_article(type_string()),
                   ", not a tensor: read it with onnxruntime itself");
}

bool Value::has_value() const {
  if (handle_ == nullptr) {
    return false;
  }
  int has = 0;
  check_status(api().HasValue(handle_.get(), &has));
  return has != 0;
}

const ElementType& Value::type() const {
  if (type_ == nullptr) [[unlikely]] {
    require_tensor();
    TORCH_CHECK_TYPE(false, "PyTorch has no counterpart of ", with_article(type_string()),
                     ": read the value with onnxruntime itself");
  }
  return *type_;
}

at::IntArrayRef Value::sizes() const {
  require_tensor();
  return sizes_;
}

at::Device Value::device() const {
  require_tensor();
  return device_;
}

void* Value::data() const {
  static_cast<void>(type());
  return data_;
}

std::optional<c10::Stream> Value::stream() const noexcept {
  return use_ == nullptr ? std::nullopt : std::optional(use_->home());
}

void Value::order_before(c10::Stream reader) const {
  if (use_ != nullptr) {
    use_->order_before(reader);
  }
}

void Value::order_before_current() const {
  if (use_ != nullptr) {
    use_->order_before(current_stream(device_));
  }
}

size_t Value::nbytes() const { return type().bytes(c10::multiply_integers(sizes_)); }

std::string Value::type_string() const {
  if (kind_ == ONNX_TYPE_OPTIONAL) {
    return "optional()";
  }
  OrtTypeInfo* info = nullptr;
  check_status(api().GetTypeInfo(handle_.get(), &info));
  return ortdl::type_string(TypeInfoHandle(info).get());
}

void Value::require_writable(const ElementType& type, at::IntArrayRef sizes) const {
  TORCH_CHECK_BUFFER(!read_only_, "the value is read-only: nothing can be copied into it");
  TORCH_CHECK_TYPE(&type == &this->type(), "cannot copy a tensor(", type.name, ") into a ",
                   type_string());
  TORCH_CHECK_VALUE(sizes == sizes_, "cannot copy a value of shape ", sizes, " into one of shape ",
                    at::IntArrayRef(sizes_));
}

void Value::write(const void* source, at::Device device) {
  if (nbytes() == 0) {
    return bump_version();
  }
  if (device_.is_cpu() && device.is_cpu()) {
    std::memmove(data_, source, nbytes());  // the two may overlap
    return bump_version();
  }
  if (device != device_) {
    require_host_wait(*this, device);
  }
  const RealOps real;
  at::Tensor from = detail::bytes_at(source, nbytes(), device);
  if (device == device_ &&
      overlap(memory_of(*this), {static_cast<const std::byte*>(source), nbytes()})) {
    from = from.clone();
  }
  bytes().copy_(from);  // on the current stream, which waits for the elements
  if (use_ != nullptr) {
    order(current_stream(device_), use_->home());
  }
  bump_version();
}

void Value::update(const Value& source) {
  require_writable(source.type(), source.sizes());
  if (source.use_ != nullptr) {
    if (source.device_ != device_) {
      require_host_wait(source, device_);
    }
    source.order_before_current();
  }
  write(source.data(), source.device());
}

void Value::update(const at::Tensor& source) {
  at::Tensor copied;
  const at::Tensor& dense = shareable(source, Copy::kIfNeeded, copied);
  const ElementType& type = element_type(dense.scalar_type());
  require_writable(type, logical_sizes(dense.sizes(), type));
  write(dense.const_data_ptr(), dense.device());
}

void Value::bump_version() const { c10::VariableVersion(version_).bump(); }

}  // namespace ortdl
