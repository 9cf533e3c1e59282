#pragma once

#include <ortdl/value.h>
#include <python/text_arg.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/jit/python/pybind_utils.h>
#include <torch/csrc/utils/pybind.h>

#include <cstdint>
#include <string_view>
#include <vector>

/// \file
/// Python arguments as C++ values, refused by role where they are something else.

namespace ortdl::python {

/// The string `text`, for a static: the one that Python's own names are compared with by address.
/// It is never released. \throws python_error
[[nodiscard]] inline PyObject* interned(const char* text) {
  PyObject* string = PyUnicode_InternFromString(text);
  if (string == nullptr) {
    throw python_error();
  }
  return string;
}

/// Whether `object` is a torch.Tensor or of a subclass. PyTorch's own check believes what an object
/// says of its class, and then reads memory that is no tensor's.
inline bool is_tensor(PyObject* object) noexcept {
  return PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(THPVariableClass)) != 0;
}

/// The tensor that `object` is.
/// \throws c10::TypeError that says `role` and what it is instead, and what to use for a NumPy
/// array.
inline const at::Tensor& tensor_arg(PyObject* object, const char* role, const char* for_array) {
  TORCH_CHECK_TYPE(is_tensor(object), role, " must be a torch.Tensor, not ",
                   Py_TYPE(object)->tp_name, is_array(object) ? c10::str(": use ", for_array) : "");
  return THPVariable_Unpack(object);
}

/// Python's `copy` argument. \throws c10::TypeError unless it is True, False or None.
inline Copy copy_arg(PyObject* object) {
  TORCH_CHECK_TYPE(PyBool_Check(object) || Py_IsNone(object) != 0,
                   "copy must be True, False or None, not ", Py_TYPE(object)->tp_name);
  return Py_IsNone(object) != 0 ? Copy::kIfNeeded : copy_policy(object == Py_True);
}

/// The integer that `object` is.
/// \throws c10::TypeError that says `role` for anything else, c10::ValueError beyond 64 bits.
inline int64_t int_arg(PyObject* object, const char* role) {
  TORCH_CHECK_TYPE(PyIndex_Check(object), role, " must be an integer, not ",
                   Py_TYPE(object)->tp_name);
  int overflow = 0;
  const long long number = PyLong_AsLongLongAndOverflow(object, &overflow);
  TORCH_CHECK_VALUE(overflow == 0, role, " does not fit into 64 bits");
  if (number == -1 && PyErr_Occurred() != nullptr) {
    throw python_error();
  }
  return number;
}

/// The name `text` of a model as Python has it: what is no UTF-8 becomes lone surrogates, as in the
/// names of files, so that `name_arg` gives the same bytes back. \throws py::error_already_set
inline py::object name_result(std::string_view text) {
  auto name = py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "surrogateescape"));
  if (!name) {
    throw py::error_already_set();
  }
  return name;
}

/// The bytes of a name that was given, as long as the string and this live.
class Name {
 public:
  explicit Name(std::string_view text, py::object holder = {}) noexcept
      : holder_(std::move(holder)), text_(text) {}
  operator std::string_view() const noexcept { return text_; }  // NOLINT(google-explicit-*)

 private:
  py::object holder_;  // of the bytes; null where the string has them
  std::string_view text_;
};

/// The name that the string `object` is.
/// \throws c10::TypeError that says `role` for anything else, c10::ValueError for a string that
///   neither UTF-8 nor `name_result` has.
inline Name name_arg(PyObject* object, const char* role) {
  TORCH_CHECK_TYPE(PyUnicode_Check(object), role, " must be a string, not ",
                   Py_TYPE(object)->tp_name);
  Py_ssize_t size = 0;
  const char* text = PyUnicode_AsUTF8AndSize(object, &size);
  if (text != nullptr) [[likely]] {
    return Name(std::string_view(text, static_cast<size_t>(size)));
  }
  if (PyErr_ExceptionMatches(PyExc_UnicodeEncodeError) == 0) {
    throw python_error();
  }
  PyErr_Clear();
  auto encoded = py::reinterpret_steal<py::object>(
      PyUnicode_AsEncodedString(object, "utf-8", "surrogateescape"));
  if (encoded) {
    const std::string_view bytes(PyBytes_AS_STRING(encoded.ptr()),
                                 static_cast<size_t>(PyBytes_GET_SIZE(encoded.ptr())));
    return Name(bytes, std::move(encoded));
  }
  PyErr_Clear();
  const auto shown = py::reinterpret_steal<py::object>(PyObject_ASCII(object));
  TORCH_CHECK_VALUE(false, role, " must be text that UTF-8 has, and ",
                    shown ? py::cast<std::string>(shown) : "one",
                    " holds a lone surrogate: no model has such a name");
}

/// The two integers in the tuple `object`. \throws as `int_arg` does.
inline std::pair<int64_t, int64_t> pair_arg(PyObject* object, const char* role) {
  TORCH_CHECK_TYPE(PyTuple_Check(object), role, " must be a tuple of two integers, not ",
                   Py_TYPE(object)->tp_name);
  TORCH_CHECK_TYPE(PyTuple_GET_SIZE(object) == 2, role,
                   " must be a tuple of two integers, not a tuple of ", PyTuple_GET_SIZE(object));
  return {int_arg(PyTuple_GET_ITEM(object, 0), role), int_arg(PyTuple_GET_ITEM(object, 1), role)};
}

/// Whether `object` is of the pybind11 class of `Class`. pybind11's own check believes what an
/// object says of its class.
template <typename Class>
bool is_of(py::handle object) {
  // Looked up once: no class of pybind11's is ever registered anew.
  static auto* const type = reinterpret_cast<PyTypeObject*>(py::type::of<Class>().ptr());
  return PyObject_TypeCheck(object.ptr(), type) != 0;
}

/// The object of class `Class` that the torch.ScriptObject `object` stands for; null if it is
/// something else.
template <typename Class>
c10::intrusive_ptr<Class> script_object_arg(PyObject* object) {
  if (!is_of<torch::jit::Object>(object)) {
    return {};
  }
  // `ScriptObject.__new__` alone makes one that stands for nothing.
  auto* instance = reinterpret_cast<py::detail::instance*>(object);
  TORCH_CHECK_TYPE(instance->get_value_and_holder().holder_constructed(),
                   "the torch.ScriptObject was never initialised");
  const c10::IValue script(py::cast<torch::jit::Object>(py::handle(object))._ivalue());
  return *script.type() == *c10::getCustomClassType<c10::intrusive_ptr<Class>>()
             ? script.toCustomClass<Class>()
             : c10::intrusive_ptr<Class>();
}

/// The sizes in the sequence `object`. \throws as `int_arg` does.
inline std::vector<int64_t> shape_arg(PyObject* object) {
  TORCH_CHECK_TYPE(PySequence_Check(object) && !PyUnicode_Check(object),
                   "shape must be a sequence of integers, not ", Py_TYPE(object)->tp_name);
  std::vector<int64_t> sizes;
  for (const py::handle size : py::reinterpret_borrow<py::sequence>(object)) {
    sizes.push_back(int_arg(size.ptr(), "each size of shape"));
  }
  return sizes;
}

}  // namespace ortdl::python
