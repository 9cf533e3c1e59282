#include <c10/core/impl/VirtualGuardImpl.h>
#include <ortdl/memory.h>
#include <python/args.h>
#include <python/device_arg.h>
#include <torch/csrc/Device.h>

#include <optional>
#include <string>
#include <utility>

namespace ortdl::python {
namespace {

std::optional<at::Device> parse(const std::string& name) {
  try {
    return at::Device(name);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
}

// No device's name holds what UTF-8 has not, so that it may be escaped.
std::string text_of(PyObject* name) {
  const auto encoded = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(name, "utf-8", "backslashreplace"));
  if (!encoded) {
    throw python_error();
  }
  return {PyBytes_AS_STRING(encoded.ptr()), static_cast<size_t>(PyBytes_GET_SIZE(encoded.ptr()))};
}

at::Device by_name(const std::string& name) {
  const std::optional<at::Device> device = parse(name);
  // PyTorch overlooks that an index is too large.
  TORCH_CHECK_VALUE(device.has_value() && device->str() == name, "'", name,
                    "' is no device of PyTorch: name one as 'cpu', 'cuda' or 'cuda:0'");
  return *device;
}

at::Device of_dlpack(PyObject* pair) {
  const auto [type, index] = pair_arg(pair, "device");
  TORCH_CHECK_VALUE((type == kDLCPU && index == 0) ||
                        ((type == kDLCUDA || type == kDLROCM) && std::in_range<int32_t>(index)),
                    "values cannot be made on device (", type, ", ", index,
                    "): name the CPU (1, 0), CUDA (2, index) or ROCm (10, index)");
  return device_of(DLDevice{.device_type = static_cast<DLDeviceType>(type),
                            .device_id = static_cast<int32_t>(index)});
}

// A device of PyTorch, whose index may be missing; PyTorch for ROCm calls HIP's cuda.
at::Device of_torch(at::Device device) {
  TORCH_CHECK_VALUE(holds_values(device) && (!device.is_cpu() || device.index() <= 0),
                    "values cannot be made on ", device, ": name the CPU, CUDA or ROCm");
  if (device.is_cpu()) {
    return at::kCPU;
  }
  if (device.is_hip() && rocm_type() != at::kHIP) {
    return of_torch(at::Device(rocm_type(), device.index()));
  }
  if (!device.has_index()) {
    require_usable(at::Device(device.type(), 0));
    return c10::impl::VirtualGuardImpl(device.type()).getDevice();
  }
  require_usable(device);
  return device;
}

}  // namespace

at::Device device_arg(PyObject* device) {
  const py::handle object(device);
  if (PyTuple_Check(device)) {
    return of_dlpack(device);
  }
  if (py::isinstance<py::str>(object)) {
    return of_torch(by_name(text_of(device)));
  }
  TORCH_CHECK_TYPE(THPDevice_Check(device),
                   "device must be a torch.device, its name or DLPack's "
                   "tuple of two integers, not ",
                   Py_TYPE(device)->tp_name);
  return of_torch(py::cast<at::Device>(object));
}

}  // namespace ortdl::python
