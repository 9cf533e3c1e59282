#include <python/args.h>
#include <python/capsule.h>
#include <python/export.h>
#include <python/guarded.h>
#include <python/ortvalue.h>
#include <python/stream_arg.h>

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

bool is_versioned(PyObject* max_version) {
  return max_version != nullptr && pair_arg(max_version, "max_version").first >= 1;
}

// Whether `dl_device` asks for the CPU and the value is elsewhere.
bool moves_to_host(PyObject* dl_device, const Value& value) {
  if (dl_device == nullptr) {
    return false;
  }
  const DLDevice own = dlpack_device(value);
  const auto [type, index] = pair_arg(dl_device, "dl_device");
  const bool stays = type == own.device_type && index == own.device_id;
  TORCH_CHECK_BUFFER(stays || (type == kDLCPU && index == 0), "the value is on device (",
                     static_cast<int>(own.device_type), ", ", own.device_id,
                     "), and cannot be exported to (", type, ", ", index,
                     "): ask for its own device or the CPU (1, 0)");
  return !stays;
}

}  // namespace

PyObject* dlpack(PyObject* self, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 0, "__dlpack__ takes no positional arguments, but ", count,
                     " were given");
    const Request request = parse("__dlpack__", args, names);
    const bool versioned = is_versioned(request.max_version);
    ValuePtr storage;
    const ValuePtr& value = unwrap_value(self, storage);
    const std::optional<c10::Stream> reader = stream_arg(request.stream, value->device());
    const bool to_host = moves_to_host(request.dl_device, *value);
    TORCH_CHECK_TYPE(request.copy == nullptr || PyBool_Check(request.copy),
                     "copy must be True, False or None, not ", Py_TYPE(request.copy)->tp_name);
    TORCH_CHECK_BUFFER(!to_host || request.copy != Py_False, "exporting a value on ",
                       value->device(), " to the CPU needs a copy: pass copy=None");
    const bool copies = request.copy == Py_True || to_host;
    const at::Device target = to_host ? at::kCPU : value->device();
    const ValuePtr exported =
        copies ? deliver(value, {.copy = Copy::kAlways, .device = target}) : value;
    auto capsule = py::reinterpret_steal<py::object>(
        make_capsule(exported, versioned, copies ? kDlpackCopied : 0));
    if (reader.has_value()) {
      exported->order_before(*reader);  // a copy on the CPU is there already
    }
    return capsule.release().ptr();
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
    const ValuePtr& value = unwrap_value(args[0], storage);
    auto capsule =
        py::reinterpret_steal<py::object>(make_capsule(value, is_versioned(request.max_version)));
    value->order_before_current();
    return capsule.release().ptr();
  });
}

}  // namespace ortdl::python
