#include <python/capsule.h>
#include <python/gil.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

#include <utility>

namespace ortdl::python {
namespace {

constexpr const char* kLegacy = "dltensor";
constexpr const char* kUsedLegacy = "used_dltensor";
constexpr const char* kVersioned = "dltensor_versioned";
constexpr const char* kUsedVersioned = "used_dltensor_versioned";

// Frees the struct of a capsule that nobody took.
template <typename Managed>
void destroy_capsule(PyObject* capsule, const char* name) noexcept {
  if (PyCapsule_IsValid(capsule, name) == 0) {
    return;
  }
  const py::error_scope pending;  // the deleter may run Python code
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed->deleter != nullptr) {
    managed->deleter(managed);
  }
}

void destroy_legacy(PyObject* capsule) { destroy_capsule<DLManagedTensor>(capsule, kLegacy); }
void destroy_versioned(PyObject* capsule) {
  destroy_capsule<DLManagedTensorVersioned>(capsule, kVersioned);
}

template <typename Managed>
PyObject* wrap(Managed* managed, const char* name, PyCapsule_Destructor destructor) {
  PyObject* capsule = PyCapsule_New(managed, name, destructor);
  if (capsule == nullptr) {
    managed->deleter(managed);
    throw python_error();
  }
  return capsule;
}

template <typename Managed>
Managed* pointer_of(PyObject* capsule, const char* name) {
  auto* managed = static_cast<Managed*>(PyCapsule_GetPointer(capsule, name));
  if (managed == nullptr) {
    throw python_error();
  }
  return managed;
}

void mark_used(PyObject* capsule, const char* name) {
  if (PyCapsule_SetName(capsule, name) != 0) {
    throw python_error();
  }
}

void require_move_allowed(at::Device from, const Delivery& delivery) {
  TORCH_CHECK_VALUE(delivery.copy != Copy::kNever || delivery.device.value_or(from) == from,
                    "moving elements from ", from, " to ", delivery.device.value_or(from),
                    " needs a copy: pass copy=None");
}

void require_device(const DLTensor& tensor, std::optional<DLDevice> expected) {
  const DLDevice found = tensor.device;
  TORCH_CHECK_BUFFER(
      !expected.has_value() ||
          (expected->device_type == found.device_type && expected->device_id == found.device_id),
      "the producer's __dlpack_device__() says (", static_cast<int>(expected->device_type), ", ",
      expected->device_id, "), but its capsule (", static_cast<int>(found.device_type), ", ",
      found.device_id, ")");
}

// Checks all that can be checked before the struct is taken over.
void require_acceptable(const DLTensor& tensor, uint64_t flags, const Delivery& delivery,
                        std::optional<DLDevice> expected) {
  require_device(tensor, expected);
  validate_dlpack(tensor, flags, delivery.copy);
  require_move_allowed(device_of(tensor.device), delivery);
}

ValuePtr take_versioned(PyObject* capsule, const Delivery& delivery,
                        std::optional<DLDevice> expected) {
  auto* managed = pointer_of<DLManagedTensorVersioned>(capsule, kVersioned);
  if (managed->version.major > DLPACK_MAJOR_VERSION) {
    const DLPackVersion version = managed->version;
    mark_used(capsule, kUsedVersioned);
    // Only the fields before the tensor itself are sure to be where we look for them.
    const ManagedTensor released(managed);
    TORCH_CHECK_BUFFER(false, "the capsule holds DLPack ", version.major, ".", version.minor,
                       ", and this ortdl_torch reads versions up to ", DLPACK_MAJOR_VERSION,
                       ".x: ask the producer for max_version=(", DLPACK_MAJOR_VERSION, ", ",
                       DLPACK_MINOR_VERSION, ")");
  }
  require_acceptable(managed->dl_tensor, managed->flags, delivery, expected);
  mark_used(capsule, kUsedVersioned);
  return adopt(ManagedTensor(managed), delivery);
}

ValuePtr take_legacy(PyObject* capsule, const Delivery& delivery,
                     std::optional<DLDevice> expected) {
  auto* managed = pointer_of<DLManagedTensor>(capsule, kLegacy);
  require_acceptable(managed->dl_tensor, 0, delivery, expected);
  mark_used(capsule, kUsedLegacy);
  return adopt(ManagedTensor(managed), delivery);
}

}  // namespace

PyObject* make_capsule(ValuePtr value, bool versioned, uint64_t flags) {
  if (versioned) {
    return wrap(to_dlpack_versioned(std::move(value), flags), kVersioned, destroy_versioned);
  }
  return wrap(to_dlpack_legacy(std::move(value)), kLegacy, destroy_legacy);
}

ValuePtr deliver(const ValuePtr& value, const Delivery& delivery) {
  if (delivery.copy != Copy::kAlways && !delivery.device.has_value()) {
    return value;
  }
  const at::Device target = delivery.device.value_or(value->device());
  if (delivery.copy != Copy::kAlways && target == value->device()) {
    return value;
  }
  require_move_allowed(value->device(), delivery);
  // Without the GIL, another thread may drop the caller's.
  const ValuePtr held = value;  // NOLINT(performance-unnecessary-copy-initialization)
  const WithoutGil released;
  return held->to(target);
}

ValuePtr adopt(ManagedTensor managed, const Delivery& delivery) {
  const at::Device device = device_of(managed.tensor().device);
  if (const at::Device target = delivery.device.value_or(device); target != device) {
    return deliver(adopt(std::move(managed), {.copy = Copy::kIfNeeded}), {.device = target});
  }
  if (shares_memory(managed.tensor(), managed.flags(), delivery.copy)) {
    return from_dlpack(std::move(managed), delivery.copy);
  }
  const WithoutGil released;
  return copy_of_dlpack(managed.tensor());
}

bool is_on_device(PyObject* object) {
  const DLTensor* tensor = nullptr;
  if (PyCapsule_IsValid(object, kVersioned) != 0) {
    const auto* managed = pointer_of<DLManagedTensorVersioned>(object, kVersioned);
    tensor = managed->version.major <= DLPACK_MAJOR_VERSION ? &managed->dl_tensor : nullptr;
  } else if (PyCapsule_IsValid(object, kLegacy) != 0) {
    tensor = &pointer_of<DLManagedTensor>(object, kLegacy)->dl_tensor;
  }
  return tensor != nullptr && !is_host(tensor->device.device_type);
}

ValuePtr take_capsule(PyObject* capsule, const Delivery& delivery,
                      std::optional<DLDevice> expected) {
  TORCH_CHECK_TYPE(PyCapsule_CheckExact(capsule), "expected a DLPack capsule, not ",
                   Py_TYPE(capsule)->tp_name);
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    return take_versioned(capsule, delivery, expected);
  }
  if (PyCapsule_IsValid(capsule, kLegacy) != 0) {
    return take_legacy(capsule, delivery, expected);
  }
  const char* name = PyCapsule_GetName(capsule);
  PyErr_Clear();
  const std::string_view found = name == nullptr ? "(none)" : name;
  TORCH_CHECK_VALUE(found != kUsedLegacy && found != kUsedVersioned,
                    "the DLPack capsule was used already, and each can be used once: export the "
                    "tensor again");
  TORCH_CHECK_TYPE(false, "expected a DLPack capsule named '", kVersioned, "' or '", kLegacy,
                   "', but this one is named '", found, "'");
}

}  // namespace ortdl::python
