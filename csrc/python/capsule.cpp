#include <python/capsule.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

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

void require_device(const DLTensor& tensor, std::optional<DLDevice> expected) {
  const DLDevice found = tensor.device;
  TORCH_CHECK_BUFFER(
      !expected.has_value() ||
          (expected->device_type == found.device_type && expected->device_id == found.device_id),
      "the producer's __dlpack_device__() says (", static_cast<int>(expected->device_type), ", ",
      expected->device_id, "), but its capsule (", static_cast<int>(found.device_type), ", ",
      found.device_id, ")");
}

ValuePtr take_versioned(PyObject* capsule, Copy copy, std::optional<DLDevice> expected) {
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
  require_device(managed->dl_tensor, expected);
  validate_dlpack(managed->dl_tensor, managed->flags, copy);
  mark_used(capsule, kUsedVersioned);
  return from_dlpack(ManagedTensor(managed), copy);
}

ValuePtr take_legacy(PyObject* capsule, Copy copy, std::optional<DLDevice> expected) {
  auto* managed = pointer_of<DLManagedTensor>(capsule, kLegacy);
  require_device(managed->dl_tensor, expected);
  validate_dlpack(managed->dl_tensor, 0, copy);
  mark_used(capsule, kUsedLegacy);
  return from_dlpack(ManagedTensor(managed), copy);
}

}  // namespace

PyObject* make_capsule(ValuePtr value, bool versioned, uint64_t flags) {
  if (versioned) {
    return wrap(to_dlpack_versioned(std::move(value), flags), kVersioned, destroy_versioned);
  }
  return wrap(to_dlpack_legacy(std::move(value)), kLegacy, destroy_legacy);
}

ValuePtr take_capsule(PyObject* capsule, Copy copy, std::optional<DLDevice> expected) {
  TORCH_CHECK_TYPE(PyCapsule_CheckExact(capsule), "expected a DLPack capsule, not ",
                   Py_TYPE(capsule)->tp_name);
  if (PyCapsule_IsValid(capsule, kVersioned) != 0) {
    return take_versioned(capsule, copy, expected);
  }
  if (PyCapsule_IsValid(capsule, kLegacy) != 0) {
    return take_legacy(capsule, copy, expected);
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
