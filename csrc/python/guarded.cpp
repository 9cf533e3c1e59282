#include <ortdl/runtime.h>
#include <python/guarded.h>
#include <torch/csrc/Exceptions.h>

#include <algorithm>
#include <string>
#include <string_view>

namespace ortdl::python {
namespace {

PyObject* ort_error_class = nullptr;

// What `error` says. It may quote a model, whose bytes may be no UTF-8: these are escaped, and not
// left as surrogates, which cannot be printed.
py::object message_of(std::string_view said) {
  return py::reinterpret_steal<py::object>(
      PyUnicode_DecodeUTF8(said.data(), static_cast<Py_ssize_t>(said.size()), "backslashreplace"));
}

// What `error` says, with NULs escaped. Its `what` is a C string, which ends at a NUL in a name
// that it quotes.
std::string text_of(const c10::Error& error) {
  const auto has_nul = [](const std::string& text) { return text.find('\0') != text.npos; };
  if (!has_nul(error.msg()) && std::ranges::none_of(error.context(), has_nul)) {
    return error.what_without_backtrace();
  }
  std::string text = error.msg();
  for (const std::string& context : error.context()) {
    text += " (" + context + ")";
  }
  for (size_t at = 0; (at = text.find('\0', at)) != text.npos;) {
    text.replace(at, 1, "\\x00");
  }
  return text;
}

void set_ort_error(const OrtError& error) {
  const py::object message = message_of(text_of(error));
  const auto instance = py::reinterpret_steal<py::object>(
      message ? PyObject_CallOneArg(ort_error_class, message.ptr()) : nullptr);
  if (instance) {
    instance.attr("code") = static_cast<int>(error.code());
    PyErr_SetObject(ort_error_class, instance.ptr());
  }
}

PyObject* rethrow_as_torch_does() {
  HANDLE_TH_ERRORS
  throw;
  END_HANDLE_TH_ERRORS
}

// PyTorch tells which Python error it is, but loses it where it cannot decode the text, and loses
// the text behind a NUL.
void set_torch_error(const c10::Error& error) {
  static_cast<void>(rethrow_as_torch_does());
  const std::string text = text_of(error);
  const bool undecoded = PyErr_ExceptionMatches(PyExc_UnicodeDecodeError) != 0;
  if (!undecoded && text == error.what_without_backtrace()) {
    return;
  }
  const auto told = py::reinterpret_borrow<py::object>(PyErr_Occurred());
  PyErr_Clear();
  PyObject* kind = PyExc_RuntimeError;
  if (!undecoded) {
    kind = told.ptr();
  } else if (dynamic_cast<const c10::ValueError*>(&error) != nullptr) {
    kind = PyExc_ValueError;
  } else if (dynamic_cast<const c10::TypeError*>(&error) != nullptr) {
    kind = PyExc_TypeError;
  } else if (dynamic_cast<const c10::BufferError*>(&error) != nullptr) {
    kind = PyExc_BufferError;
  }
  if (const py::object message = message_of(text)) {
    PyErr_SetObject(kind, message.ptr());
  }
}

}  // namespace

bool add_ort_error(PyObject* module) {
  ort_error_class = PyErr_NewExceptionWithDoc(
      "ortdl_torch.OrtError",
      "What ONNX Runtime reported.\n\nAttributes:\n    code: the status' code, an integer of "
      "ONNX Runtime's `OrtErrorCode`.",
      PyExc_RuntimeError, nullptr);
  return ort_error_class != nullptr &&
         PyModule_AddObjectRef(module, "OrtError", ort_error_class) == 0;
}

void set_python_error() noexcept {
  try {
    try {
      throw;
    } catch (const OrtError& error) {
      set_ort_error(error);
    } catch (const py::cast_error& error) {
      PyErr_Format(PyExc_TypeError, "an argument is of a wrong kind, or text that is no UTF-8: %s",
                   error.what());
    } catch (const std::bad_alloc&) {
      PyErr_NoMemory();
    } catch (const c10::Error& error) {
      set_torch_error(error);
    } catch (...) {
      static_cast<void>(rethrow_as_torch_does());
    }
  } catch (...) {
    PyErr_SetString(PyExc_SystemError, "ortdl_torch: an error could not be reported");
  }
}

}  // namespace ortdl::python
