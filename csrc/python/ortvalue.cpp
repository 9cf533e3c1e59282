#include <python/args.h>
#include <python/exchange_api.h>
#include <python/export.h>
#include <python/guarded.h>
#include <python/ortvalue.h>
#include <python/stock.h>
#include <python/text_arg.h>
#include <structmember.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <array>
#include <cstddef>

namespace ortdl::python {
namespace {

struct PyOrtValue {
  PyObject_HEAD ValuePtr value;
  PyObject* weak_references;
};

PyTypeObject* base_type = nullptr;
// The class whose instances are made: the Python one on top of the type here.
PyTypeObject* value_class = nullptr;

const ValuePtr& value_of(PyObject* self) { return reinterpret_cast<PyOrtValue*>(self)->value; }

PyObject* make(PyTypeObject* type, ValuePtr value) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self == nullptr) {
    throw python_error();
  }
  new (&reinterpret_cast<PyOrtValue*>(self)->value) ValuePtr(std::move(value));
  return self;
}

void dealloc_value(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  if (reinterpret_cast<PyOrtValue*>(self)->weak_references != nullptr) [[unlikely]] {
    PyObject_ClearWeakRefs(self);
  }
  reinterpret_cast<PyOrtValue*>(self)->value.~ValuePtr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* create_value(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(
        PyTuple_GET_SIZE(args) == 1 && (kwargs == nullptr || PyDict_GET_SIZE(kwargs) == 0),
        "OrtValue takes one torch.classes.ortdl.OrtValue; values of tensors are made by "
        "ortdl_torch.to_ortvalue(tensor)");
    ValuePtr storage;
    return make(type, unwrap_value(PyTuple_GET_ITEM(args, 0), storage));
  });
}

// The Python method or property `Function`, from a function of the value.
template <auto Function>
PyObject* method(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] { return py::cast(Function(*value_of(self))).release().ptr(); });
}

template <auto Function>
PyObject* property(PyObject* self, void* /*unused*/) {
  return method<Function>(self, nullptr);
}

std::vector<int64_t> shape(const Value& value) { return value.sizes().vec(); }
int32_t element_type_of(const Value& value) { return value.type().onnx; }
uintptr_t data_ptr(const Value& value) { return reinterpret_cast<uintptr_t>(value.data()); }
std::string data_type(const Value& value) { return value.type_string(); }
std::string device_name(const Value& value) {
  return c10::DeviceTypeName(value.device().type(), /*lower_case=*/true);
}
size_t size_in_bytes(const Value& value) { return value.nbytes(); }
bool has_value(const Value& value) { return value.has_value(); }
bool value_is_tensor(const Value& value) { return value.is_tensor(); }
bool is_sparse(const Value& value) { return value.kind() == ONNX_TYPE_SPARSETENSOR; }
bool is_tensor_sequence(const Value& value) {
  return value.type_string().starts_with("seq(tensor");
}
at::Tensor packed(const Value& value) { return value.packed(); }
at::Tensor memory(const Value& value) { return value.bytes(); }
bool read_only(const Value& value) { return value.read_only(); }
at::Device device(const Value& value) { return value.device(); }

// Whether NumPy itself has the element type, and can reach the elements.
bool fits_numpy(const Value& value) {
  const DLDataType type = value.type().dlpack;
  const bool known =
      type.code == kDLInt || type.code == kDLUInt || type.code == kDLFloat || type.code == kDLBool;
  return known && type.bits >= 8 && value.device().is_cpu();
}

std::optional<at::ScalarType> dtype(const Value& value) {
  const at::ScalarType scalar = value.type().scalar;
  return scalar == at::ScalarType::Undefined ? std::nullopt : std::optional(scalar);
}

PyObject* script_object(PyObject* self, void* /*unused*/) {
  return guarded(
      [&] { return torch::jit::toPyObject(c10::IValue(value_of(self))).release().ptr(); });
}

PyObject* from_packed(PyObject* /*unused*/, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 3, "from_packed takes (bytes, element_type, shape), but ", count,
                     " arguments were given");
    const at::Tensor& bytes = tensor_arg(args[0], "bytes", "torch.from_numpy(array)");
    const auto& type = element_type_from_onnx(int_arg(args[1], "element_type"));
    return wrap_value(Value::from_packed(bytes, type, shape_arg(args[2])));
  });
}

template <auto Function>
constexpr PyMethodDef method_def(const char* name, const char* doc) noexcept {
  return {name, method<Function>, METH_NOARGS, doc};
}

constexpr const char* kFromPacked =
    "from_packed(bytes, element_type, shape, /)\n--\n\n"
    "A value of int4, uint4, int2, uint2 or float4e2m1 elements over the memory of `bytes`.\n\n"
    "Args:\n"
    "    bytes: flat uint8 tensor, elements packed from the low bits up; shared, kept alive.\n"
    "    element_type: ONNX's number of the type (onnx.TensorProto.INT4, ...).\n"
    "    shape: the logical shape, in elements.\n\n"
    "Raises:\n"
    "    TypeError: the type is not a packed one, or `bytes` is no uint8 tensor.\n"
    "    ValueError: `bytes` is not flat, or their number does not fit the shape.";

constexpr const char* kDlpack =
    "__dlpack__($self, /, *, stream=None, max_version=None, dl_device=None, copy=None)\n--\n\n"
    "A DLPack capsule over the elements, as the Python array API standard (2024.12) says.\n\n"
    "Args:\n"
    "    stream: the stream of the value's device that reads the elements, and then waits for "
    "them\n"
    "        by an event. CUDA: None and 1 are the default stream, another number is a stream's\n"
    "        handle; ROCm: None and 0, and the same; -1 orders nothing. On the CPU None or -1.\n"
    "    max_version: the newest version that the caller reads; None gives the struct of DLPack\n"
    "        before 1.0.\n"
    "    dl_device: None, the value's own device, or the CPU (1, 0), to which elements elsewhere "
    "are\n"
    "        copied: the host waits for that, without the GIL.\n"
    "    copy: True gives a copy, False and None share memory.\n\n"
    "Raises:\n"
    "    BufferError: another device is asked for, or the CPU with copy=False; CUDA's per-thread\n"
    "        default stream (2); or the value is read-only and max_version is below (1, 0).\n"
    "    ValueError: a number that names no stream of the device.\n"
    "    RuntimeError: stream is being captured into a graph that the value is not part of.\n"
    "    TypeError: a wrong kind of argument, or the value is no tensor of a supported type.";

std::array value_methods{
    method_def<shape>("shape", "The shape, in elements, as a list of ints."),
    method_def<element_type_of>("element_type", "ONNX's number of the element type."),
    method_def<data_type>("data_type", "The type as onnxruntime spells it, as 'tensor(float)'."),
    method_def<device_name>("device_name",
                            "PyTorch's type of the device that holds the elements, as 'cpu'."),
    method_def<data_ptr>("data_ptr", "The address of the first element; 0 where there is none."),
    method_def<size_in_bytes>("tensor_size_in_bytes", "The bytes that the elements take."),
    method_def<has_value>("has_value", "False for an optional value with nothing in it."),
    method_def<value_is_tensor>("is_tensor", "True if the value is a dense tensor."),
    method_def<is_sparse>("is_sparse_tensor", "True if the value is a sparse tensor."),
    method_def<is_tensor_sequence>("is_tensor_sequence", "True if it is a sequence of tensors."),
    method_def<packed>("packed",
                       "The elements' bytes as a flat uint8 tensor that shares their memory."),
    method_def<memory>("_memory", "As packed(), of read-only values too: for reading only."),
    method_def<fits_numpy>("_fits_numpy", "True if NumPy takes the value through DLPack."),
    PyMethodDef{"__dlpack__", c_function(dlpack), METH_FASTCALL | METH_KEYWORDS, kDlpack},
    PyMethodDef{"__dlpack_device__", dlpack_device_tuple, METH_NOARGS,
                "The device as DLPack names it: (1, 0) is the CPU, (2, i) CUDA, (10, i) ROCm."},
    PyMethodDef{"from_packed", c_function(from_packed), METH_FASTCALL | METH_STATIC, kFromPacked},
    PyMethodDef{},
};

std::array value_properties{
    PyGetSetDef{"dtype", property<dtype>, nullptr,
                "The torch.dtype, or None where PyTorch has none.", nullptr},
    PyGetSetDef{"read_only", property<read_only>, nullptr,
                "True if the elements must not be written to, as their owner said.", nullptr},
    PyGetSetDef{"device", property<device>, nullptr, "The torch.device of the elements.", nullptr},
    PyGetSetDef{"script_object", script_object, nullptr,
                "The torch.classes.ortdl.OrtValue behind this object.", nullptr},
    PyGetSetDef{},
};

// How CPython 3.11 is told where a type has its weak references.
std::array value_members{
    PyMemberDef{"__weaklistoffset__", T_PYSSIZET, offsetof(PyOrtValue, weak_references), READONLY,
                nullptr},
    PyMemberDef{},
};

std::array value_slots{
    PyType_Slot{Py_tp_new, reinterpret_cast<void*>(create_value)},
    PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(dealloc_value)},
    PyType_Slot{Py_tp_methods, value_methods.data()},
    PyType_Slot{Py_tp_getset, value_properties.data()},
    PyType_Slot{Py_tp_members, value_members.data()},
    PyType_Slot{0, nullptr},
};

PyType_Spec value_spec{"ortdl_torch._C.OrtValueBase", sizeof(PyOrtValue), 0,
                       Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, value_slots.data()};

// The value that `object` is, or that is put into `storage` for it; null if it is none.
const ValuePtr& find_value(PyObject* object, ValuePtr& storage) {
  if (Py_TYPE(object) == value_class || PyObject_TypeCheck(object, base_type)) [[likely]] {
    return value_of(object);
  }
  storage = script_object_arg<Value>(object);
  if (!storage.defined()) {
    storage = value_of_stock(object);
  }
  return storage;
}

}  // namespace

void set_value_class(PyObject* cls) {
  TORCH_CHECK_TYPE(
      PyType_Check(cls) && PyType_IsSubtype(reinterpret_cast<PyTypeObject*>(cls), base_type),
      "expected a subclass of OrtValueBase");
  Py_INCREF(cls);
  value_class = reinterpret_cast<PyTypeObject*>(cls);
}

PyObject* wrap_value(ValuePtr value) { return make(value_class, std::move(value)); }

const ValuePtr& unwrap_value(PyObject* object, ValuePtr& storage) {
  const ValuePtr& value = find_value(object, storage);
  TORCH_CHECK_TYPE(value.defined(),
                   "expected an ortdl_torch.OrtValue, torch.classes.ortdl.OrtValue or "
                   "onnxruntime.OrtValue, not ",
                   described_stranger(object));
  return value;
}

const ValuePtr& value_for(PyObject* object, ValuePtr& storage, const char* what,
                          const std::string& name) {
  const ValuePtr* value = nullptr;
  try {
    value = &find_value(object, storage);
  } catch (c10::Error& error) {
    error.add_context(c10::str("It was given for the ", what, " '", name, "'."));
    throw;
  }
  TORCH_CHECK_TYPE(value->defined(), "the ", what, " '", name,
                   "' must be a torch.Tensor or an OrtValue, not ", described_stranger(object),
                   is_array(object) ? ": use torch.from_numpy(array)" : "");
  return *value;
}

ValuePtr value_or_null(PyObject* object) {
  ValuePtr storage;
  return find_value(object, storage);
}

bool add_ortvalue(PyObject* module) {
  auto* type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&value_spec));
  if (type == nullptr) {
    return false;
  }
  base_type = type;
  value_class = type;
  add_exchange_api(reinterpret_cast<PyObject*>(type));
  return PyModule_AddObjectRef(module, "OrtValueBase", reinterpret_cast<PyObject*>(type)) == 0;
}

}  // namespace ortdl::python
