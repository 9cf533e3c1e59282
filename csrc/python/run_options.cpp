#include <python/run_options.h>
#include <torch/csrc/utils/pybind.h>

#include <string_view>

// onnxruntime's RunOptions is a class of another module made with pybind11, of a release that may
// share nothing with PyTorch's. But all of them have one layout of their objects, and whether this
// is it can be tried.

namespace ortdl::python {
namespace {

using Instance = py::detail::instance;

PyTypeObject* run_options_class = nullptr;

// The C++ object that `object` of a pybind11 class owns; null if it was never made, or is one part
// of a class with several bases.
void* owned_by(PyObject* object) {
  const auto* instance = reinterpret_cast<const Instance*>(object);
  const bool made =
      instance->owned && instance->simple_layout && instance->simple_holder_constructed;
  return made ? instance->simple_value_holder[0] : nullptr;
}

// Whether ONNX Runtime finds in the C++ object what Python wrote into `options`.
bool is_as_expected(const py::object& options) {
  static constexpr std::string_view kTag = "ortdl: is this the object?";
  if (Py_TYPE(options.ptr())->tp_basicsize != sizeof(Instance)) {
    return false;
  }
  void* found = owned_by(options.ptr());
  // A second pointer to the object is in its holder, a std::unique_ptr.
  if (found == nullptr ||
      found != reinterpret_cast<const Instance*>(options.ptr())->simple_value_holder[1]) {
    return false;
  }
  options.attr("logid") = kTag;
  const char* tag = nullptr;
  check_status(api().RunOptionsGetRunTag(static_cast<OrtRunOptions*>(found), &tag));
  return tag == kTag;
}

}  // namespace

void set_run_options_class(PyObject* cls) {
  TORCH_CHECK_TYPE(PyType_Check(cls), "expected the class onnxruntime.RunOptions");
  if (is_as_expected(py::handle(cls)())) {
    Py_INCREF(cls);
    run_options_class = reinterpret_cast<PyTypeObject*>(cls);
  }
}

OrtRunOptions* run_options_arg(PyObject* object) {
  if (Py_IsNone(object) != 0) {
    return nullptr;
  }
  TORCH_CHECK_TYPE(run_options_class != nullptr,
                   "run_options must be None: the RunOptions of the installed onnxruntime are laid "
                   "out in a way that this release of ortdl_torch does not know");
  TORCH_CHECK_TYPE(PyObject_TypeCheck(object, run_options_class),
                   "run_options must be None or an onnxruntime.RunOptions, not ",
                   Py_TYPE(object)->tp_name);
  void* options = owned_by(object);
  TORCH_CHECK_TYPE(options != nullptr,
                   "the onnxruntime.RunOptions was never initialised, or its class has another "
                   "class of C++ beside it as a base");
  return static_cast<OrtRunOptions*>(options);
}

}  // namespace ortdl::python
