#include <ortdl/dlpack.h>

#include <memory>
#include <utility>

namespace ortdl {
namespace {

template <typename Managed>
void release_managed(Managed* managed) noexcept {
  if (managed == nullptr || managed->deleter == nullptr) {
    return;
  }
  release_foreign({.function =
                       [](void* object) {
                         auto* self = static_cast<Managed*>(object);
                         self->deleter(self);
                       },
                   .object = managed});
}

// A struct of ours, with the arrays that it points to and the value that it keeps alive.
template <typename Managed>
struct Export {
  Managed managed{};  // NOLINT(bugprone-invalid-enum-default-initialization): filled in below
  ValuePtr value;
  c10::SmallVector<int64_t, 5> sizes;
  c10::SmallVector<int64_t, 5> strides;
};

template <typename Managed>
Managed* make_export(ValuePtr value) {
  const ElementType& type = value->type();
  const at::IntArrayRef sizes = value->sizes();
  auto made = std::make_unique<Export<Managed>>();
  made->sizes.assign(sizes.begin(), sizes.end());
  made->strides.resize(sizes.size());
  int64_t stride = 1;
  for (size_t i = sizes.size(); i-- > 0;) {
    made->strides[i] = stride;
    stride *= std::max<int64_t>(sizes[i], 1);
  }
  made->managed.dl_tensor = {.data = value->data(),
                             .device = dlpack_device(*value),
                             .ndim = static_cast<int32_t>(sizes.size()),
                             .dtype = type.dlpack,
                             .shape = made->sizes.data(),
                             .strides = made->strides.data(),
                             .byte_offset = 0};
  made->managed.manager_ctx = made.get();
  made->managed.deleter = [](Managed* self) {
    delete static_cast<Export<Managed>*>(self->manager_ctx);
  };
  made->value = std::move(value);
  return &made.release()->managed;
}

}  // namespace

ManagedTensor::ManagedTensor(ManagedTensor&& other) noexcept : managed_(other.managed_) {
  std::visit([](auto& managed) { managed = nullptr; }, other.managed_);
}

ManagedTensor::~ManagedTensor() {
  std::visit([](auto* managed) { release_managed(managed); }, managed_);
}

const DLTensor& ManagedTensor::tensor() const noexcept {
  return std::visit([](auto* managed) -> const DLTensor& { return managed->dl_tensor; }, managed_);
}

uint64_t ManagedTensor::flags() const noexcept {
  const auto* versioned = std::get_if<DLManagedTensorVersioned*>(&managed_);
  return versioned == nullptr ? 0 : (*versioned)->flags;
}

DLManagedTensorVersioned* to_dlpack_versioned(ValuePtr value, uint64_t flags) {
  const uint64_t own = value->read_only() ? kDlpackReadOnly : 0;
  auto* managed = make_export<DLManagedTensorVersioned>(std::move(value));
  managed->version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION};
  managed->flags = own | flags;
  return managed;
}

DLManagedTensor* to_dlpack_legacy(ValuePtr value) {
  TORCH_CHECK_BUFFER(!value->read_only(),
                     "the value is read-only, which a capsule of DLPack before 1.0 cannot say: ask "
                     "for max_version=(1, 0) or newer, or for a copy");
  return make_export<DLManagedTensor>(std::move(value));
}

DLDevice dlpack_device(const Value& value) { return dlpack_device(value.device()); }

}  // namespace ortdl
