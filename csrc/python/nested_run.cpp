#include <ortdl/text.h>
#include <ortdl/wording.h>
#include <python/gil.h>
#include <python/interrupt.h>
#include <python/nested.h>
#include <python/nested_run.h>
#include <torch/csrc/autograd/python_variable.h>

namespace ortdl::python {
namespace {

ValuePtr value_of(const Session& session, const Node& node, py::handle object) {
  try {
    return nested_arg(object, node.type);
  } catch (c10::Error& error) {
    error.add_context("It was given for the input '" + node.name + "', " + with_article(node.type) +
                      ". " + expected_inputs(session.inputs()));
    throw;
  }
}

py::object result(const Session::Values& values, size_t i, const Feeds& feeds) {
  const Value& value = *values[i];
  if (!value.has_value() || !value.is_tensor() || is_text(value)) {
    return nested_result(values[i]);
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
  ValuePtr value = value_of(session, session.inputs()[index], object);
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
                    result(values, i, feeds).release().ptr());
  }
  return results;
}

}  // namespace ortdl::python
