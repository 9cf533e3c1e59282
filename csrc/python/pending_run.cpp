#include <python/args.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/pending_run.h>
#include <python/release_queue.h>
#include <python/run_options.h>
#include <torch/csrc/autograd/python_variable.h>

namespace ortdl::python {
namespace {

// Takes the reference to `callable` over.
void call_and_drop(void* callable) {
  const auto function = py::reinterpret_steal<py::object>(static_cast<PyObject*>(callable));
  const auto result = py::reinterpret_steal<py::object>(PyObject_CallNoArgs(function.ptr()));
  if (!result) {
    PyErr_WriteUnraisable(function.ptr());
  }
}

void drop_reference(void* object) { Py_DECREF(static_cast<PyObject*>(object)); }

// What Python holds of a run in flight.
class PendingRun {
 public:
  PendingRun(FuturePtr future, SharedRunOptions options)
      : future_(std::move(future)), options_(std::move(options)) {}
  PendingRun(const PendingRun&) = delete;
  PendingRun(PendingRun&&) = delete;
  PendingRun& operator=(const PendingRun&) = delete;
  PendingRun& operator=(PendingRun&&) = delete;
  // Nobody can ask for the result any more.
  ~PendingRun() { terminate(); }

  // Once it has ended, options of the caller's are left as they are.
  void terminate() const noexcept {
    if (!future_->completed()) {
      ortdl::terminate(options_);
    }
  }

  // PyTorch's thread that completes the future does not wait for the GIL.
  void call_when_ended(py::object function) const {
    future_->addCallback(
        [callable = function.release().ptr()](c10::ivalue::Future& /*unused*/) {
          release_with_gil({&call_and_drop, callable});
        },
        /*uses_future=*/false);
  }

  [[nodiscard]] py::tuple result() const {
    {
      const WithoutGil released;
      future_->wait();
    }
    const c10::List<at::Tensor> outputs = future_->value().toTensorList();
    py::tuple results(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i), THPVariable_Wrap(outputs.get(i)));
    }
    return results;
  }

 private:
  FuturePtr future_;
  SharedRunOptions options_;
};

const PendingRun& pending_run(py::handle object) {
  // `PendingRun.__new__` alone makes one that is none.
  if (!is_of<PendingRun>(object) || !reinterpret_cast<py::detail::instance*>(object.ptr())
                                         ->get_value_and_holder()
                                         .holder_constructed()) {
    throw py::type_error("expected a PendingRun that a session started");
  }
  return py::cast<const PendingRun&>(object);
}

py::object result(py::handle self) {
  const PendingRun& run = pending_run(self);
  PyObject* const tuple = guarded([&run] { return run.result().release().ptr(); });
  if (tuple == nullptr) {
    throw py::error_already_set();
  }
  return py::reinterpret_steal<py::object>(tuple);
}

}  // namespace

void add_pending_run(py::module& module) {
  py::class_<PendingRun>(module, "PendingRun")
      .def("call_when_ended",
           [](py::handle self, py::function function) {
             pending_run(self).call_when_ended(std::move(function));
           })
      .def("terminate", [](py::handle self) { pending_run(self).terminate(); })
      .def("result", &result);
  module.def("end_runs_in_flight", &end_runs_in_flight, py::call_guard<py::gil_scoped_release>());
}

SharedRunOptions shared_run_options(PyObject* object) {
  OrtRunOptions* const options = run_options_arg(object);
  if (options == nullptr) {
    return make_run_options();
  }
  Py_INCREF(object);
  return {options,
          [object](OrtRunOptions* /*its own*/) { release_with_gil({&drop_reference, object}); }};
}

py::object start_run(const Session& session, Feeds feeds, SharedRunOptions options) {
  feeds.require_all();
  FuturePtr future;
  {
    const WithoutGil released;  // where all its threads are busy, ONNX Runtime may wait
    future = session.run_async(std::move(feeds), session.all_outputs().vec(), options);
  }
  return py::cast(std::make_unique<PendingRun>(std::move(future), std::move(options)));
}

}  // namespace ortdl::python
