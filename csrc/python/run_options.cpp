#include <python/instance.h>
#include <python/run_options.h>

#include <string_view>

namespace ortdl::python {
namespace {

constexpr const char* kUnusable =
    " was never initialised, was made as an object of another class, or its class has another "
    "class of C++ beside it as a base";

OwnedClass run_options_class;
OwnedClass session_options_class;

// Whether ONNX Runtime finds in the C++ object what Python wrote into `options`.
bool is_as_expected(const OwnedClass& cls, const py::object& options) {
  static constexpr std::string_view kTag = "ortdl: is this the object?";
  void* const found = cls.owned_by(options.ptr());
  if (found == nullptr) {
    return false;
  }
  options.attr("logid") = kTag;
  const char* tag = nullptr;
  check_status(api().RunOptionsGetRunTag(static_cast<OrtRunOptions*>(found), &tag));
  return tag == kTag;
}

// The class `cls`, which is kept for ever, as that of `made`.
OwnedClass class_of(const py::object& made, PyObject* cls) {
  Py_INCREF(cls);
  return {cls, made.ptr()};
}

}  // namespace

void set_options_classes(PyObject* run_options, PyObject* session_options) {
  TORCH_CHECK_TYPE(PyType_Check(run_options) && PyType_Check(session_options),
                   "expected the classes onnxruntime.RunOptions and onnxruntime.SessionOptions");
  session_options_class = class_of(py::handle(session_options)(), session_options);
  const py::object made = py::handle(run_options)();
  if (const OwnedClass cls = class_of(made, run_options); is_as_expected(cls, made)) {
    run_options_class = cls;
  }
}

OrtRunOptions* run_options_arg(PyObject* object) {
  if (Py_IsNone(object) != 0) {
    return nullptr;
  }
  TORCH_CHECK_TYPE(run_options_class.is_known(),
                   "run_options must be None: the RunOptions of the installed onnxruntime are laid "
                   "out in a way that this release of ortdl_torch does not know");
  TORCH_CHECK_TYPE(run_options_class.is_class_of(object),
                   "run_options must be None or an onnxruntime.RunOptions, not ",
                   Py_TYPE(object)->tp_name);
  void* options = run_options_class.owned_by(object);
  TORCH_CHECK_TYPE(options != nullptr, "the onnxruntime.RunOptions", kUnusable,
                   ": make one with onnxruntime.RunOptions()");
  return static_cast<OrtRunOptions*>(options);
}

void require_session_options(PyObject* object) {
  TORCH_CHECK_TYPE(session_options_class.is_class_of(object),
                   "sess_options must be an onnxruntime.SessionOptions, not ",
                   Py_TYPE(object)->tp_name);
  TORCH_CHECK_TYPE(
      !session_options_class.is_known() || session_options_class.owned_by(object) != nullptr,
      "the onnxruntime.SessionOptions", kUnusable, ": make one with onnxruntime.SessionOptions()");
}

}  // namespace ortdl::python
