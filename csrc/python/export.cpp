#include <python/args.h>
#include <python/capsule.h>
#include <python/export.h>
#include <python/guarded.h>
#include <python/ortvalue.h>

namespace ortdl::python {
namespace {

// The arguments of `__dlpack__`; null where not given.
struct Request {
  PyObject* stream = nullptr;
  PyObject* max_version = nullptr;
  PyObject* dl_device = nullptr;
  PyObject* copy = nullptr;
};

Request parse(const char* function, PyObject* const* values, PyObject* names) {
  Request request;
  const Py_ssize_t count = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
  for (Py_ssize_t i = 0; i < count; ++i) {
    const auto name = py::cast<std::string_view>(py::handle(PyTuple_GET_ITEM(names, i)));
    PyObject* value = Py_IsNone(values[i]) != 0 ? nullptr : values[i];
    if (name == "max_version") {
      request.max_version = value;
    } else if (name == "stream") {
      request.stream = value;
    } else if (name == "dl_device") {
      request.dl_device = value;
    } else if (name == "copy") {
      request.copy = value;
    } else {
      TORCH_CHECK_TYPE(false, function, " has no keyword argument '", name, "'");
    }
  }
  return request;
}

void check_stream(PyObject* stream) {
  if (stream == nullptr) {
    return;
  }
  TORCH_CHECK_TYPE(PyLong_Check(stream) && !PyBool_Check(stream),
                   "stream must be an integer or None, not ", Py_TYPE(stream)->tp_name);
  const int64_t number = int_arg(stream, "stream");
  TORCH_CHECK_VALUE(number == -1,
                    "a value on the CPU has no streams: stream must be None or -1, "
                    "not ",
                    number);
}

bool is_versioned(PyObject* max_version) {
  return max_version != nullptr && pair_arg(max_version, "max_version").first >= 1;
}

void check_device(PyObject* dl_device, const Value& value) {
  const DLDevice own = dlpack_device(value);
  if (dl_device == nullptr) {
    return;
  }
  const auto [type, index] = pair_arg(dl_device, "dl_device");
  TORCH_CHECK_BUFFER(type == own.device_type && index == own.device_id, "the value is on device (",
                     static_cast<int>(own.device_type), ", ", own.device_id,
                     "), and cannot be exported to (", type, ", ", index, ")");
}

}  // namespace

PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 0, "__dlpack__ takes no positional arguments, but ", count,
                     " were given");
    const Request request = parse("__dlpack__", args, names);
    check_stream(request.stream);
    const bool versioned = is_versioned(request.max_version);
    ValuePtr storage;
    const ValuePtr& value = unwrap_value(self, storage);
    check_device(request.dl_device, *value);
    TORCH_CHECK_TYPE(request.copy == nullptr || PyBool_Check(request.copy),
                     "copy must be True, False or None, not ", Py_TYPE(request.copy)->tp_name);
    if (request.copy == Py_True) {
      return make_capsule(value->clone(), versioned, kDlpackCopied);
    }
    return make_capsule(value, versioned);
  });
}

PyObject* dlpack_device_tuple(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    ValuePtr storage;
    const DLDevice device = dlpack_device(*unwrap_value(self, storage));
    return py::make_tuple(static_cast<int>(device.device_type), device.device_id).release().ptr();
  });
}

PyObject* to_dlpack(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                    PyObject* names) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 1,
                     "to_dlpack takes one positional argument and the keyword "
                     "max_version, but ",
                     count, " positional arguments were given");
    const Request request = parse("to_dlpack", args + count, names);
    TORCH_CHECK_TYPE(
        request.stream == nullptr && request.dl_device == nullptr && request.copy == nullptr,
        "to_dlpack has only the keyword argument max_version");
    ValuePtr storage;
    return make_capsule(unwrap_value(args[0], storage), is_versioned(request.max_version));
  });
}

}  // namespace ortdl::python
