#include <ATen/ops/empty.h>
#include <ortdl/wording.h>
#include <python/args.h>
#include <python/capsule.h>
#include <python/exchange_api.h>
#include <python/guarded.h>
#include <python/ortvalue.h>
#include <python/stream_arg.h>
#include <torch/csrc/Exceptions.h>
#include <torch/csrc/utils/pybind.h>

namespace ortdl::python {
namespace {

constexpr const char* kAttribute = "__dlpack_c_exchange_api__";
constexpr const char* kCapsule = "dlpack_exchange_api";

// 0, or -1 with a Python error set: how the table's functions answer.
template <typename Function>
int answer(Function&& function) noexcept {
  try {
    function();
    return 0;
  } catch (...) {
    set_python_error();
    return -1;
  }
}

int from_object(void* object, DLManagedTensorVersioned** out) noexcept {
  return answer([&] {
    ValuePtr storage;
    const ValuePtr& value = unwrap_value(static_cast<PyObject*>(object), storage);
    // Whoever takes it orders itself after the current stream, not after the value's.
    value->order_before_current();
    *out = to_dlpack_versioned(value);
  });
}

void require_known_version(DLPackVersion version) {
  TORCH_CHECK_BUFFER(version.major == DLPACK_MAJOR_VERSION, "the struct is DLPack ", version.major,
                     ".", version.minor, ", and this ortdl_torch reads version ",
                     DLPACK_MAJOR_VERSION);
}

int to_object(DLManagedTensorVersioned* stolen, void** out) noexcept {
  return answer([&] {
    ManagedTensor managed(stolen);
    require_known_version(stolen->version);
    validate_dlpack(managed.tensor(), managed.flags(), Copy::kNever);
    *out = wrap_value(from_dlpack(std::move(managed), Copy::kNever));
  });
}

int allocate(DLTensor* prototype, DLManagedTensorVersioned** out, void* context,
             void (*set_error)(void*, const char*, const char*)) noexcept {
  try {
    DLTensor wanted = *prototype;
    wanted.data = nullptr;
    wanted.strides = nullptr;
    wanted.byte_offset = 0;
    *out = to_dlpack_versioned(make_uninitialized(wanted));
    return 0;
  } catch (const c10::TypeError& error) {
    set_error(context, "TypeError", error.what_without_backtrace());
  } catch (const c10::ValueError& error) {
    set_error(context, "ValueError", error.what_without_backtrace());
  } catch (const std::exception& error) {
    set_error(context, "MemoryError", error.what());  // what else can fail is the allocation
  }
  return -1;
}

int current_work_stream(DLDeviceType type, int32_t index, void** out) noexcept {
  return answer([&] {
    const at::Device device = device_of(DLDevice{.device_type = type, .device_id = index});
    // The CPU has no streams.
    *out = device.is_cpu() ? nullptr : current_stream(device).native_handle();
  });
}

// Throws what a function of `object`'s table reported.
void require_success(int failed, PyObject* object) {
  if (failed != 0 && PyErr_Occurred() != nullptr) {
    throw python_error();
  }
  TORCH_CHECK_BUFFER(failed == 0, "the C exchange API of ", with_article(Py_TYPE(object)->tp_name),
                     " failed and said no reason");
}

// True if `type` surely has no attribute `name`, which most types have not: told without the error
// that asking for it would make and drop.
bool lacks(PyTypeObject* type, PyObject* name) {
  const PyTypeObject* of_type = Py_TYPE(type);
  return of_type->tp_getattro == PyType_Type.tp_getattro && _PyType_Lookup(type, name) == nullptr &&
         _PyType_Lookup(Py_TYPE(type), name) == nullptr;
}

const DLPackExchangeAPI table{
    .header = {.version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION},
               .prev_api = nullptr},
    .managed_tensor_allocator = allocate,
    .managed_tensor_from_py_object_no_sync = from_object,
    .managed_tensor_to_py_object_no_sync = to_object,
    .dltensor_from_py_object_no_sync = nullptr,  // optional, and values keep no strides
    .current_work_stream = current_work_stream,
};

}  // namespace

void add_exchange_api(PyObject* cls) {
  // The capsule's pointer is not const, but its readers' is.
  const auto capsule = py::reinterpret_steal<py::object>(
      PyCapsule_New(const_cast<DLPackExchangeAPI*>(&table), kCapsule, nullptr));
  if (!capsule || PyObject_SetAttrString(cls, kAttribute, capsule.ptr()) != 0) {
    throw python_error();
  }
}

const DLPackExchangeAPI* find_exchange_api(PyObject* object) {
  static PyObject* const name = interned(kAttribute);
  PyTypeObject* type = Py_TYPE(object);
  if (lacks(type, name)) {
    return nullptr;
  }
  const auto capsule =
      py::reinterpret_steal<py::object>(PyObject_GetAttr(reinterpret_cast<PyObject*>(type), name));
  if (!capsule) {
    if (PyErr_ExceptionMatches(PyExc_AttributeError) == 0) {
      throw python_error();
    }
    PyErr_Clear();
    return nullptr;
  }
  if (PyCapsule_IsValid(capsule.ptr(), kCapsule) == 0) {
    return nullptr;
  }
  const auto* header =
      static_cast<const DLPackExchangeAPIHeader*>(PyCapsule_GetPointer(capsule.ptr(), kCapsule));
  while (header != nullptr && header->version.major != DLPACK_MAJOR_VERSION) {
    header = header->prev_api;
  }
  const auto* found = reinterpret_cast<const DLPackExchangeAPI*>(header);
  return found != nullptr && found->managed_tensor_from_py_object_no_sync != nullptr ? found
                                                                                     : nullptr;
}

ValuePtr import_by_exchange_api(const DLPackExchangeAPI& api, PyObject* object, Copy copy,
                                CurrentDeviceGuard& guard) {
  DLManagedTensorVersioned* exported = nullptr;
  require_success(api.managed_tensor_from_py_object_no_sync(object, &exported), object);
  TORCH_CHECK_BUFFER(exported != nullptr, "the C exchange API of ",
                     with_article(Py_TYPE(object)->tp_name), " gave nothing");
  ManagedTensor managed(exported);
  require_known_version(exported->version);
  validate_dlpack(managed.tensor(), managed.flags(), copy);
  guard.restore();
  const DLDevice named = managed.tensor().device;
  if (const at::Device device = device_of(named); !device.is_cpu()) {
    TORCH_CHECK_BUFFER(api.current_work_stream != nullptr, "the C exchange API of a ",
                       Py_TYPE(object)->tp_name, " does not say on which stream of ", device,
                       " it works, so its elements cannot be waited for");
    guard.enter(device);
    void* stream = nullptr;
    require_success(api.current_work_stream(named.device_type, named.device_id, &stream), object);
    guard.restore();
    order(stream_of_producer(device, stream), current_stream(device));
  }
  return adopt(std::move(managed), {.copy = copy});
}

}  // namespace ortdl::python
