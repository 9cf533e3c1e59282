#include <ATen/ATen.h>
#include <c10/core/StorageImpl.h>
#include <ortdl/memory.h>
#include <ortdl/shareable.h>
#include <ortdl/type_string.h>
#include <ortdl/value.h>

#include <cstring>

namespace ortdl {
namespace {

c10::VariableVersion version_of(const at::Tensor& tensor) {
  return tensor.is_inference() ? c10::VariableVersion(0)
                               : tensor.unsafeGetTensorImpl()->version_counter();
}

}  // namespace

Value::Value(ValueHandle handle) : handle_(std::move(handle)), version_(0) {
  check_status(api().GetValueType(handle_.get(), &kind_));
  if (is_tensor()) {
    read_tensor();
  }
}

Value::Value(ValueHandle handle, const Layout& layout, c10::VariableVersion version)
    : handle_(std::move(handle)),
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
  // From here on no other thread can free the memory; one may have done so just before.
  storage.unsafeGetStorageImpl()->set_resizable(false);
  TORCH_CHECK_BUFFER(tensor.nbytes() == 0 || tensor.nbytes() <= storage.nbytes(),
                     "the tensor's storage was resized while it was converted");
  // Materialises a copy-on-write storage.
  void* data = tensor.mutable_data_ptr();
  const Layout layout{.type = &type, .data = data, .device = tensor.device(), .sizes = sizes};
  ValueHandle handle = make_owning(storage, layout, tensor.nbytes());
  return c10::make_intrusive<Value>(std::move(handle), layout, version_of(tensor));
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
  const int64_t count = checked_numel(shape);
  TORCH_CHECK_VALUE(static_cast<size_t>(bytes.numel()) == type.bytes(count), "a ", type.name,
                    " value of shape ", shape, " takes ", type.bytes(count), " bytes, but ",
                    bytes.numel(), " were given");
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
                     "PyTorch has no dense tensor of a ", element.name, " value of shape ", shape,
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

ValuePtr Value::clone() const {
  const at::Tensor copy = bytes().clone();
  void* data = copy.numel() == 0 ? nullptr : copy.mutable_data_ptr();
  const Layout layout{.type = type_, .data = data, .device = device_, .sizes = sizes_};
  return c10::make_intrusive<Value>(make_owning(copy.storage(), layout, copy.nbytes()), layout);
}

ValuePtr Value::reinterpreted(const ElementType& type) const {
  TORCH_CHECK_TYPE(type.dlpack.bits == this->type().dlpack.bits, "a ", type_string(),
                   " cannot be read as ", type.name, ", whose elements have another width");
  const Layout layout{
      .type = &type, .data = data_, .device = device_, .sizes = sizes_, .read_only = read_only_};
  return c10::make_intrusive<Value>(make_owning(bytes().storage(), layout, nbytes()), layout,
                                    version_);
}

at::Tensor Value::bytes() const { return view({static_cast<int64_t>(nbytes())}, at::kByte); }

at::Tensor Value::view(at::IntArrayRef sizes, at::ScalarType scalar) const {
  // The elements are never const: only the value's description is.
  auto self = ValuePtr::unsafe_reclaim_from_nonowning(const_cast<Value*>(this));
  const auto release = [](void* value) {
    const auto last = ValuePtr::reclaim(static_cast<Value*>(value));
  };
  c10::DataPtr data(data_, self.release(), release, device_);
  c10::Storage storage(c10::Storage::use_byte_size_t{}, nbytes(), std::move(data), nullptr,
                       /*resizable=*/false);
  at::Tensor tensor = at::detail::make_tensor<c10::TensorImpl>(
      std::move(storage), c10::DispatchKeySet(c10::DispatchKey::CPU),
      c10::scalarTypeToTypeMeta(scalar));
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_contiguous(sizes);
  if (!tensor.is_inference()) {
    impl->set_version_counter(version_);
  }
  return tensor;
}

void Value::require_tensor() const {
  TORCH_CHECK_TYPE(is_tensor(), "the OrtValue holds a ", type_string(),
                   ", not a tensor: read it with onnxruntime itself");
}

bool Value::has_value() const {
  int has = 0;
  check_status(api().HasValue(handle_.get(), &has));
  return has != 0;
}

const ElementType& Value::type() const {
  if (type_ == nullptr) [[unlikely]] {
    require_tensor();
    TORCH_CHECK_TYPE(false, "PyTorch has no counterpart of a ", type_string(),
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

size_t Value::nbytes() const { return type().bytes(c10::multiply_integers(sizes_)); }

std::string Value::type_string() const {
  OrtTypeInfo* info = nullptr;
  check_status(api().GetTypeInfo(handle_.get(), &info));
  return ortdl::type_string(TypeInfoHandle(info).get());
}

void Value::update(const void* source, const ElementType& type, at::IntArrayRef sizes) {
  TORCH_CHECK_BUFFER(!read_only_, "the value is read-only: nothing can be copied into it");
  TORCH_CHECK_TYPE(&type == &this->type(), "cannot copy a tensor(", type.name, ") into a ",
                   type_string());
  TORCH_CHECK_VALUE(sizes == sizes_, "cannot copy a value of shape ", sizes, " into one of shape ",
                    at::IntArrayRef(sizes_));
  if (nbytes() > 0) {
    std::memmove(data_, source, nbytes());  // the two may overlap
  }
  bump_version();
}

void Value::update(const Value& source) { update(source.data(), source.type(), source.sizes()); }

void Value::update(const at::Tensor& source) {
  at::Tensor copied;
  const at::Tensor& dense = shareable(source, Copy::kIfNeeded, copied);
  const ElementType& type = element_type(dense.scalar_type());
  update(dense.const_data_ptr(), type, logical_sizes(dense.sizes(), type));
}

void Value::bump_version() const { c10::VariableVersion(version_).bump(); }

}  // namespace ortdl
