#include <ortdl/element_type.h>
#include <ortdl/live.h>
#include <ortdl/registered.h>
#include <ortdl/runtime.h>
#include <python/args.h>
#include <python/binding.h>
#include <python/convert.h>
#include <python/device_arg.h>
#include <python/door.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/interrupt.h>
#include <python/ortvalue.h>
#include <python/pending_run.h>
#include <python/release_queue.h>
#include <python/run_options.h>
#include <python/session.h>
#include <python/session_factory.h>
#include <python/stock.h>
#include <python/tracing.h>
#include <torch/csrc/utils/pybind.h>
#include <torch/headeronly/version.h>

#include <map>
#include <vector>

// Registration only: what `ortdl_torch._C` holds.
namespace ortdl::python {
namespace {

std::vector<at::ScalarType> dtypes() {
  std::vector<at::ScalarType> types;
  for (const ElementType& type : element_types()) {
    if (type.scalar != at::ScalarType::Undefined && !type.packed()) {
      types.push_back(type.scalar);
    }
  }
  return types;
}

std::map<int, int> packed_bits() {
  std::map<int, int> bits;
  for (const ElementType& type : element_types()) {
    if (type.packed()) {
      bits[type.onnx] = type.dlpack.bits;
    }
  }
  return bits;
}

// Before anything else: PyTorch knows the classes of another copy only.
void require_only_copy() {
  try {
    require_registered();
  } catch (const c10::Error& error) {
    throw py::import_error(error.what_without_backtrace());
  }
}

py::dict live() {
  const LiveObjects live = live_objects();
  py::dict counts;
  counts["values"] = live.values;
  counts["owners"] = live.owners;
  counts["sessions"] = live.sessions;
  return counts;
}

}  // namespace
}  // namespace ortdl::python

PYBIND11_MODULE(_C, module) {
  using namespace ortdl::python;
  require_only_copy();
  if (!add_ort_error(module.ptr()) || !add_ortvalue(module.ptr()) || !add_session(module.ptr()) ||
      !add_binding(module.ptr()) ||
      PyModule_AddFunctions(module.ptr(), conversion_functions()) != 0 ||
      PyModule_AddFunctions(module.ptr(), session_functions()) != 0) {
    throw py::error_already_set();
  }
  watch_for_interrupts();
  add_pending_run(module);
  install_release_queue();
  install_exporting_hook();
  // One build fits one minor version of torch; the package compares it with the one installed.
  module.attr("torch_version") = TORCH_VERSION;
  module.def("set_value_class", [](const py::object& cls) { set_value_class(cls.ptr()); });
  module.def("reinterpreted", [](const py::object& object, int64_t onnx) {
    ortdl::ValuePtr storage;
    const auto& type = ortdl::element_type_from_onnx(onnx);
    return py::reinterpret_steal<py::object>(
        wrap_value(unwrap_value(object.ptr(), storage)->reinterpreted(type)));
  });
  module.def("set_stock_classes",
             [](const py::object& wrapper, const py::object& native, const py::object& made) {
               set_stock_classes(wrapper.ptr(), native.ptr(), made.ptr());
             });
  module.def("set_options_classes", [](const py::object& run, const py::object& session) {
    set_options_classes(run.ptr(), session.ptr());
  });
  module.def("require_session_options",
             [](const py::object& object) { require_session_options(object.ptr()); });
  module.def("update", [](const py::object& target, const py::object& source) {
    ortdl::ValuePtr target_storage;
    const ortdl::ValuePtr value = unwrap_value(target.ptr(), target_storage);
    if (is_tensor(source.ptr())) {
      const at::Tensor tensor = THPVariable_Unpack(source.ptr());
      const WithoutGil released;
      return value->update(tensor);
    }
    ortdl::ValuePtr source_storage;
    const ortdl::ValuePtr from = unwrap_value(source.ptr(), source_storage);
    const WithoutGil released;
    value->update(*from);
  });
  module.def("resolve_device", [](const py::object& device) {
    PyObject* const found =
        guarded([&device] { return py::cast(device_arg(device.ptr())).release().ptr(); });
    if (found == nullptr) {
      throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(found);
  });
  module.def("stop_release_queue", &stop_release_queue);
  module.def("drop_captured_options", [] { take_captured_options().reset(); });
  module.def("runtime_version", &ortdl::runtime_version);
  module.def("element_type_of", [](at::ScalarType type) { return ortdl::element_type(type).onnx; });
  module.def("dtypes", &dtypes);
  module.def("packed_bits", &packed_bits);
  module.def("live_objects", &live,
             "How many objects of this library are alive in the process, for leak tests: 'values' "
             "(OrtValues), 'owners' (tensors' memory that OrtValues hold), 'sessions'.");
}
