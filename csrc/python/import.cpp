#include <python/args.h>
#include <python/capsule.h>
#include <python/exchange_api.h>
#include <python/guarded.h>
#include <python/import.h>
#include <python/ortvalue.h>
#include <python/release_queue.h>
#include <torch/csrc/Device.h>

#include <utility>

namespace ortdl::python {
namespace {

// True if looking `name` up finds something without running the object's own code.
bool exists_statically(py::handle object, const char* name) {
  const py::object missing = py::module_::import("builtins").attr("object")();
  const py::object found =
      py::module_::import("inspect").attr("getattr_static")(object, name, missing);
  return !found.is(missing);
}

// True if `error` says that `object` itself has no attribute `name`. An error that names another
// attribute or object comes from within the lookup.
bool says_missing(const py::error_already_set& error, py::handle object, const char* name) {
  const py::object named = py::getattr(error.value(), "name", py::none());
  const py::object owner = py::getattr(error.value(), "obj", py::none());
  return named.is_none() || (named.equal(py::str(name)) && (owner.is_none() || owner.is(object)));
}

// The method `name`: a TypeError if the object has none, but what its own lookup raises unchanged.
py::object protocol_method(PyObject* object, const char* name) {
  try {
    return py::handle(object).attr(name);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_AttributeError) || exists_statically(object, name) ||
        !says_missing(error, object, name)) {
      throw;
    }
    py::raise_from(error, PyExc_TypeError,
                   c10::str("expected a DLPack capsule or an object with __dlpack__ and "
                            "__dlpack_device__, but a ",
                            Py_TYPE(object)->tp_name, " has no ", name)
                       .c_str());
    throw py::error_already_set();
  }
}

DLDevice device_of_producer(PyObject* object) {
  const py::object answer = protocol_method(object, "__dlpack_device__")();
  const auto [type, index] = pair_arg(answer.ptr(), "what __dlpack_device__() gives");
  TORCH_CHECK_VALUE(std::in_range<int32_t>(type) && std::in_range<int32_t>(index),
                    "__dlpack_device__() of a ", Py_TYPE(object)->tp_name, " gave (", type, ", ",
                    index, "), which no device can be");
  return {.device_type = static_cast<DLDeviceType>(type), .device_id = static_cast<int32_t>(index)};
}

// The producer's capsule: in its newest form if it knows how to be asked for that.
py::object request_capsule(const py::object& method, Copy copy, bool to_host) {
  py::dict options;
  options["max_version"] = py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION);
  if (copy == Copy::kNever) {
    options["copy"] = false;
  }
  if (to_host) {
    options["dl_device"] = py::make_tuple(static_cast<int>(kDLCPU), 0);
  }
  try {
    return method(**options);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_TypeError) || to_host) {
      throw;
    }
  }
  return method();
}

ValuePtr import_by_protocol(PyObject* object, Copy copy, bool to_host) {
  const py::object method = protocol_method(object, "__dlpack__");
  const DLDevice device = device_of_producer(object);
  const bool moves = to_host && device.device_type != kDLCPU;
  TORCH_CHECK_VALUE(!moves || copy != Copy::kNever, "moving a ", Py_TYPE(object)->tp_name,
                    " to the CPU needs a copy: pass copy=None");
  const py::object capsule = request_capsule(method, copy, moves);
  return take_capsule(capsule.ptr(), copy, moves ? std::nullopt : std::optional(device));
}

// PyTorch's own rule for its protocol, which takes no notice of the grad mode.
ValuePtr import_tensor(const at::Tensor& tensor, Copy copy, bool to_host) {
  TORCH_CHECK_BUFFER(!tensor.requires_grad(),
                     "the tensor requires grad, and DLPack cannot carry that: use tensor.detach(), "
                     "or to_ortvalue(tensor) under torch.no_grad()");
  if (!to_host || !(tensor.is_cuda() || tensor.is_hip())) {
    return Value::from_tensor(tensor, copy);
  }
  TORCH_CHECK_VALUE(copy != Copy::kNever, "moving a tensor on ", tensor.device(),
                    " to the CPU needs a copy: pass copy=None");
  return Value::from_tensor(tensor.cpu(), copy);
}

// A tensor, unless its class has a protocol of its own. PyTorch's table of C functions would not
// do: it overlooks grad, pending negations and tensors without memory.
bool is_plain_tensor(PyObject* object) {
  if (THPVariable_CheckExact(object)) {
    return true;
  }
  if (!THPVariable_Check(object)) {
    return false;
  }
  const auto own = py::handle(reinterpret_cast<PyObject*>(Py_TYPE(object))).attr("__dlpack__");
  return own.is(py::handle(THPVariableClass).attr("__dlpack__"));
}

ValuePtr import_any(PyObject* object, Copy copy, bool to_host) {
  if (is_plain_tensor(object)) {
    return import_tensor(THPVariable_Unpack(object), copy, to_host);
  }
  if (PyCapsule_CheckExact(object)) {
    return take_capsule(object, copy);
  }
  // Of these two the object itself is kept alive, where a capsule would keep less.
  if (ValuePtr value = value_or_null(object); value.defined()) {
    return copy == Copy::kAlways ? value->clone() : value;
  }
  if (THPVariable_Check(object)) {
    return import_by_protocol(object, copy, to_host);
  }
  if (const DLPackExchangeAPI* exchange = to_host ? nullptr : find_exchange_api(object)) {
    return import_by_exchange_api(*exchange, object, copy);
  }
  return import_by_protocol(object, copy, to_host);
}

at::Device torch_device(PyObject* device) {
  const py::handle object(device);
  if (py::isinstance<py::str>(object)) {
    const auto name = py::cast<std::string>(object);
    try {
      return at::Device(name);
    } catch (const c10::Error& error) {
      TORCH_CHECK_VALUE(false, "'", name,
                        "' is no device of PyTorch: ", error.what_without_backtrace());
    }
  }
  TORCH_CHECK_TYPE(THPDevice_Check(device),
                   "device must be a torch.device, its name or DLPack's "
                   "tuple of two integers, not ",
                   Py_TYPE(device)->tp_name);
  return py::cast<at::Device>(object);
}

// True if `device` asks for the CPU; None asks for nothing.
bool wants_host(PyObject* device) {
  if (device == nullptr || Py_IsNone(device) != 0) {
    return false;
  }
  if (PyTuple_Check(device)) {
    const auto [type, index] = pair_arg(device, "device");
    TORCH_CHECK_VALUE(type == kDLCPU && index == 0, "values cannot be made on device (", type, ", ",
                      index, "): this version of ortdl_torch exchanges CPU memory only");
    return true;
  }
  const at::Device wanted = torch_device(device);
  TORCH_CHECK_VALUE(wanted.is_cpu() && wanted.index() <= 0, "values cannot be made on ", wanted,
                    ": this version of ortdl_torch exchanges CPU memory only");
  return true;
}

}  // namespace

PyObject* from_dlpack(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 1,
                     "from_dlpack takes one positional argument and the keywords "
                     "device and copy, but ",
                     count, " positional arguments were given");
    drain_release_queue();
    Copy copy = Copy::kIfNeeded;
    PyObject* device = nullptr;
    for (Py_ssize_t i = 0; names != nullptr && i < PyTuple_GET_SIZE(names); ++i) {
      const auto name = py::cast<std::string_view>(py::handle(PyTuple_GET_ITEM(names, i)));
      TORCH_CHECK_TYPE(name == "copy" || name == "device", "from_dlpack has no keyword argument '",
                       name, "'");
      if (name == "copy") {
        copy = copy_arg(args[count + i]);
      } else {
        device = args[count + i];
      }
    }
    return wrap_value(import_any(args[0], copy, wants_host(device)));
  });
}

}  // namespace ortdl::python
