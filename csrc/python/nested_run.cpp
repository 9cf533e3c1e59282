#include <ortdl/text.h>
#include <ortdl/wording.h>
#include <python/gil.h>
#include <python/interrupt.h>
#include <python/nested.h>
#include <python/nested_run.h>
#include <torch/csrc/autograd/python_variable.h>

namespace ortdl::python {
namespace {

// Python says of text that is none what is wrong with it, and not whose it is.
void say_whose(const char* what, const Node& node) {
  PyObject* set[3] = {nullptr, nullptr, nullptr};
  PyErr_Fetch(&set[0], &set[1], &set[2]);
  PyErr_NormalizeException(&set[0], &set[1], &set[2]);
  auto type = py::reinterpret_steal<py::object>(set[0]);
  auto error = py::reinterpret_steal<py::object>(set[1]);
  auto traceback = py::reinterpret_steal<py::object>(set[2]);
  if (py::isinstance(error, PyExc_UnicodeDecodeError) ||
      py::isinstance(error, PyExc_UnicodeEncodeError)) {
    const std::string whose =
        " (the " + std::string(what) + " '" + node.name + "', " + with_article(node.type) + ")";
    const auto text = py::reinterpret_steal<py::object>(PyUnicode_DecodeUTF8(
        whose.data(), static_cast<Py_ssize_t>(whose.size()), "backslashreplace"));
    const py::object reason = error.attr("reason");
    error.attr("reason") = py::object(reason + text);
  }
  PyErr_Restore(type.release().ptr(), error.release().ptr(), traceback.release().ptr());
}

ValuePtr value_from(const Session& session, const Node& node, py::handle object) {
  try {
    return nested_arg(object, node.type);
  } catch (c10::Error& error) {
    error.add_context("It was given for the input '" + node.name + "', " + with_article(node.type) +
                      ". " + expected_inputs(session.inputs()));
    throw;
  } catch (const python_error&) {
    say_whose("input", node);
    throw;
  }
}

py::object python_result(const Session::Values& values, size_t i, const Node& node,
                         const Feeds& feeds) {
  const Value& value = *values[i];
  if (!value.has_value() || !value.is_tensor() || is_text(value)) {
    try {
      return nested_result(values[i]);
    } catch (const python_error&) {
      say_whose("output", node);
      throw;
    }
  }
  at::Tensor tensor;
  {
    const WithoutGil released;  // copying may take long
    tensor = owned_tensor(values, i, feeds);
  }
  return py::reinterpret_steal<py::object>(THPVariable_Wrap(std::move(tensor)));
}

}  // namespace

void set_nested(Feeds& feeds, const Session& session, size_t index, py::handle object) {
  ValuePtr value = value_from(session, session.inputs()[index], object);
  const WithoutGil released;  // it may have to be moved
  feeds.set(index, std::move(value));
}

py::list run_nested(const Session& session, const Feeds& feeds, at::ArrayRef<size_t> outputs,
                    OrtRunOptions* options) {
  for (const size_t index : outputs) {
    if (const Node& node = session.outputs()[index]; !is_nested(node)) {
      require_dense(node, session.outputs());
    }
  }
  feeds.require_all();
  const Session::Values values =
      run_interruptibly([&] { return session.run_values(feeds, outputs, options); });
  py::list results(values.size());
  for (size_t i = 0; i < values.size(); ++i) {
    PyList_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                    python_result(values, i, session.outputs()[outputs[i]], feeds).release().ptr());
  }
  return results;
}

}  // namespace ortdl::python
