#include <c10/core/impl/LocalDispatchKeySet.h>
#include <c10/core/impl/TorchDispatchModeTLS.h>
#include <ortdl/shareable.h>
#include <ortdl/wording.h>
#include <python/args.h>
#include <python/binding.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/interrupt.h>
#include <python/nested_run.h>
#include <python/ortvalue.h>
#include <python/pending_run.h>
#include <python/run_options.h>
#include <python/session.h>
#include <structmember.h>
#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <array>
#include <cstddef>
#include <span>
#include <utility>

namespace ortdl::python {
namespace {

struct PySession {
  PyObject_HEAD vectorcallfunc vectorcall;
  SessionPtr session;
};

PyTypeObject* session_type = nullptr;

SessionPtr& slot_of(PyObject* self) { return reinterpret_cast<PySession*>(self)->session; }

const SessionPtr& session_of(PyObject* self) {
  const SessionPtr& session = slot_of(self);
  TORCH_CHECK(session.defined(),
              "the session was not made: a subclass must call InferenceSession.__init__");
  return session;
}

void dealloc_session(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  {
    // Releasing a session may wait for its threads.
    const WithoutGil released;
    slot_of(self).reset();
  }
  slot_of(self).~SessionPtr();
  type->tp_free(self);
  Py_DECREF(type);
}

// Calls under way, modules and what was traced rely on the model of a session.
void require_unmade(PyObject* self) {
  TORCH_CHECK(!slot_of(self).defined(),
              "the session was made already, and is never given another model: make another "
              "InferenceSession");
}

PyObject* refuse_made(PyObject* self, PyObject* /*unused*/) {
  return guarded([&]() -> PyObject* {
    require_unmade(self);
    Py_RETURN_NONE;
  });
}

PyObject* set_script_object(PyObject* self, PyObject* object) {
  return guarded([&]() -> PyObject* {
    SessionPtr session = script_object_arg<Session>(object);
    TORCH_CHECK_TYPE(session.defined(), "expected a torch.classes.ortdl.InferenceSession, not ",
                     Py_TYPE(object)->tp_name);
    require_unmade(self);
    slot_of(self) = std::move(session);
    Py_RETURN_NONE;
  });
}

PyObject* get_script_object(PyObject* self, void* /*unused*/) {
  return guarded(
      [&] { return torch::jit::toPyObject(c10::IValue(session_of(self))).release().ptr(); });
}

void set_input(Feeds& feeds, const Session& session, size_t index, PyObject* object) {
  if (const Node& node = session.inputs()[index]; !is_dense(node) && is_nested(node)) [[unlikely]] {
    set_nested(feeds, session, index, object);
    return;
  }
  if (!is_tensor(object)) {
    ValuePtr storage;
    try {
      const ValuePtr value = value_for(object, storage, "input", session.inputs()[index].name);
      if (feeds.in_place(index, *value)) {
        feeds.set(index, value);
      } else {
        const WithoutGil released;  // copying waits
        feeds.set(index, value);
      }
    } catch (c10::Error& error) {
      error.add_context(expected_inputs(session.inputs()));
      throw;
    }
    return;
  }
  const at::Tensor& tensor = THPVariable_Unpack(object);
  if (feeds.set_in_place(index, tensor)) [[likely]] {
    return;
  }
  const at::Tensor held = tensor;
  const WithoutGil released;  // copying may take long
  feeds.set(index, held);
}

using Arguments = std::span<PyObject* const>;

Arguments items_of(PyObject* tuple) {
  return {&PyTuple_GET_ITEM(tuple, 0), static_cast<size_t>(PyTuple_GET_SIZE(tuple))};
}

void set_positional(Feeds& feeds, const Session& session, Arguments args) {
  TORCH_CHECK_VALUE(args.size() <= session.inputs().size(), "the model takes ",
                    counted(session.inputs().size(), "input"), ", but ", were_given(args.size()),
                    ". ", expected_inputs(session.inputs()));
  for (size_t i = 0; i < args.size(); ++i) {
    set_input(feeds, session, i, args[i]);
  }
}

void set_by_name(Feeds& feeds, const Session& session, PyObject* name, PyObject* object) {
  set_input(feeds, session, session.input_index(name_arg(name, "an input's name")), object);
}

void set_named(Feeds& feeds, const Session& session, PyObject* mapping) {
  const auto items = py::reinterpret_steal<py::object>(PyDict_Items(mapping));
  if (!items) {
    throw python_error();
  }
  for (const py::handle item : items) {
    PyObject* key = PyTuple_GET_ITEM(item.ptr(), 0);
    TORCH_CHECK_TYPE(PyUnicode_Check(key), "an input's name must be a string, not ",
                     Py_TYPE(key)->tp_name, ". ", expected_inputs(session.inputs()));
    set_by_name(feeds, session, key, PyTuple_GET_ITEM(item.ptr(), 1));
  }
}

std::vector<at::Tensor> run_without_gil(const Session& session, Prepared& prepared,
                                        at::ArrayRef<size_t> outputs,
                                        OrtRunOptions* options = nullptr) {
  return run_interruptibly([&] { return session.run(prepared, outputs, options); });
}

// Runs the model with what `give` sets in the feeds.
template <typename Give>
PyObject* run_all(PyObject* self, Give&& give) {
  return guarded([&] {
    const SessionPtr session = session_of(self);
    const Preparation prepared = session->prepare();
    give(prepared->feeds, *session);
    if (gives_nested(*session, session->all_outputs())) [[unlikely]] {
      return py::tuple(run_nested(*session, prepared->feeds, session->all_outputs()))
          .release()
          .ptr();
    }
    std::vector<at::Tensor> outputs = run_without_gil(*session, *prepared, session->all_outputs());
    py::tuple results(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                       THPVariable_Wrap(std::move(outputs[i])));
    }
    return results.release().ptr();
  });
}

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return run_all(self, [&](Feeds& feeds, const Session& session) {
    set_positional(feeds, session, items_of(args));
    if (kwargs != nullptr && PyDict_GET_SIZE(kwargs) > 0) {
      set_named(feeds, session, kwargs);
    }
  });
}

// The class of `self` got an `__call__` of its own.
PyObject* call_overridden(PyObject* self, Arguments args, Arguments names) {
  return guarded([&] {
    const size_t count = args.size() - names.size();
    py::tuple positional(count);
    for (size_t i = 0; i < count; ++i) {
      positional[i] = py::handle(args[i]);
    }
    py::dict named;
    for (size_t i = 0; i < names.size(); ++i) {
      named[py::handle(names[i])] = py::handle(args[count + i]);
    }
    // The class's `__call__` may be one that leads back here.
    if (Py_EnterRecursiveCall(" while calling a session") != 0) {
      throw python_error();
    }
    PyObject* result = Py_TYPE(self)->tp_call(self, positional.ptr(), named.ptr());
    Py_LeaveRecursiveCall();
    return result;
  });
}

PyObject* vectorcall(PyObject* self, PyObject* const* values, size_t flagged_count,
                     PyObject* keys) {
  const Arguments names = keys == nullptr ? Arguments() : items_of(keys);
  const auto count = static_cast<size_t>(PyVectorcall_NARGS(flagged_count));
  const Arguments args{values, count + names.size()};
  if (Py_TYPE(self)->tp_call != call) [[unlikely]] {
    return call_overridden(self, args, names);
  }
  return run_all(self, [&](Feeds& feeds, const Session& session) {
    set_positional(feeds, session, args.first(count));
    for (size_t i = 0; i < names.size(); ++i) {
      set_by_name(feeds, session, names[i], args[count + i]);
    }
  });
}

// Python before 3.12 does not let a class that can be changed inherit the vectorcall protocol,
// since it would not notice an `__call__` that is set later: `vectorcall` looks for one.
void inherit_vectorcall(PyTypeObject* type) noexcept {
  if (type->tp_call == call) {
    type->tp_flags |= Py_TPFLAGS_HAVE_VECTORCALL;
  }
}

PyObject* create_session(PyTypeObject* type, PyObject* /*args*/, PyObject* /*kwargs*/) {
  inherit_vectorcall(type);
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    reinterpret_cast<PySession*>(self)->vectorcall = vectorcall;
    new (&slot_of(self)) SessionPtr();
  }
  return self;
}

// Whether what runs now is for PyTorch to see: torch.jit.trace, or a dispatch mode, which waits
// behind this key where it is to see more than what is left at the end of dispatching.
bool is_traced() {
  return c10::impl::TorchDispatchModeTLS::stack_len() > 0 ||
         c10::impl::tls_is_dispatch_key_included(c10::DispatchKey::PreDispatch) ||
         torch::jit::tracer::isTracing();
}

PyObject* call_untraced(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 2 && PyTuple_Check(args[0]) && PyDict_Check(args[1]),
                     "_call_untraced takes a tuple of inputs and a dict of inputs");
    if (is_traced()) {
      Py_RETURN_NONE;
    }
    // The class may have got an `__call__` of its own.
    return Py_TYPE(self)->tp_call(self, args[0], args[1]);
  });
}

PyObject* start(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 3 && PyTuple_Check(args[0]) && PyDict_Check(args[1]),
                     "run_async takes a tuple of tensors, a dict of tensors and run_options");
    const SessionPtr session = session_of(self);
    SharedRunOptions options = shared_run_options(args[2]);
    Feeds feeds = session->feeds();
    set_positional(feeds, *session, items_of(args[0]));
    set_named(feeds, *session, args[1]);
    return start_run(*session, std::move(feeds), std::move(options)).release().ptr();
  });
}

std::vector<size_t> output_indices(const Session& session, py::handle names) {
  std::vector<size_t> indices;
  TORCH_CHECK_TYPE(PyList_Check(names.ptr()) || PyTuple_Check(names.ptr()),
                   "output_names must be None or a list of names, not ",
                   Py_TYPE(names.ptr())->tp_name);
  for (const py::handle name : names) {
    TORCH_CHECK_TYPE(PyUnicode_Check(name.ptr()), "output_names must hold strings, not ",
                     Py_TYPE(name.ptr())->tp_name);
    indices.push_back(session.output_index(name_arg(name.ptr(), "an output's name")));
  }
  return indices;
}

PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 3, "run takes (output_names, feeds, run_options), but ", count,
                     " arguments were given");
    TORCH_CHECK_TYPE(PyDict_Check(args[1]), "feeds must be a dict of name: tensor, not ",
                     Py_TYPE(args[1])->tp_name);
    const SessionPtr session = session_of(self);
    const bool all = args[0] == Py_None;
    const std::vector<size_t> some =
        all ? std::vector<size_t>() : output_indices(*session, args[0]);
    const at::ArrayRef<size_t> names = all ? session->all_outputs() : some;
    OrtRunOptions* options = run_options_arg(args[2]);
    const Preparation prepared = session->prepare();
    set_named(prepared->feeds, *session, args[1]);
    if (gives_nested(*session, names)) {
      return run_nested(*session, prepared->feeds, names, options).release().ptr();
    }
    return py::cast(run_without_gil(*session, *prepared, names, options)).release().ptr();
  });
}

void set_target(Targets& targets, const Session& session, size_t index, PyObject* object) {
  if (is_tensor(object)) {
    targets.set(index, THPVariable_Unpack(object));
    return;
  }
  ValuePtr storage;
  targets.set(index, value_for(object, storage, "output", session.outputs()[index].name));
}

Targets targets_arg(const Session& session, PyObject* object) {
  Targets targets(session.outputs());
  if (PyDict_Check(object)) {
    TORCH_CHECK_VALUE(PyDict_GET_SIZE(object) > 0,
                      "no output was given to write into: give a tensor for one at least. The "
                      "model's outputs are: ",
                      describe(session.outputs()));
    for (const auto& [key, target] : py::reinterpret_borrow<py::dict>(object)) {
      const size_t index = session.output_index(name_arg(key.ptr(), "an output's name"));
      set_target(targets, session, index, target.ptr());
    }
    return targets;
  }
  const auto count = static_cast<size_t>(PyTuple_GET_SIZE(object));
  TORCH_CHECK_VALUE(count == session.outputs().size(), "the model has ",
                    counted(session.outputs().size(), "output"), ", but ", were_given(count),
                    " to write into: give all, or a dict. ",
                    "The model's outputs are: ", describe(session.outputs()));
  for (size_t i = 0; i < count; ++i) {
    set_target(targets, session, i, PyTuple_GET_ITEM(object, static_cast<Py_ssize_t>(i)));
  }
  return targets;
}

PyObject* run_into(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 3, "run_into takes (outputs, inputs, run_options)");
    for (PyObject* group : {args[0], args[1]}) {
      TORCH_CHECK_TYPE(PyDict_Check(group) || PyTuple_Check(group),
                       "outputs and inputs must be tuples or dicts, not ", Py_TYPE(group)->tp_name);
    }
    const SessionPtr session = session_of(self);
    OrtRunOptions* options = run_options_arg(args[2]);
    const Targets targets = targets_arg(*session, args[0]);
    const Preparation prepared = session->prepare();
    Feeds& feeds = prepared->feeds;
    if (PyDict_Check(args[1])) {
      set_named(feeds, *session, args[1]);
    } else {
      set_positional(feeds, *session, items_of(args[1]));
    }
    feeds.require_all();
    run_interruptibly([&] { session->run_into(targets, feeds, options); });
    Py_RETURN_NONE;
  });
}

py::list nodes(const std::vector<Node>& nodes) {
  py::list result;
  for (const Node& node : nodes) {
    py::list shape;
    for (size_t i = 0; i < node.shape.size(); ++i) {
      if (node.shape[i] >= 0) {
        shape.append(node.shape[i]);
      } else {
        shape.append(node.symbols[i].empty() ? py::none() : name_result(node.symbols[i]));
      }
    }
    result.append(py::make_tuple(name_result(node.name), name_result(node.type), shape));
  }
  return result;
}

PyObject* input_nodes(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    const SessionPtr session = session_of(self);
    return nodes(session->inputs()).release().ptr();
  });
}

PyObject* output_nodes(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    const SessionPtr session = session_of(self);
    return nodes(session->outputs()).release().ptr();
  });
}

PyObject* provider_names(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    const SessionPtr session = session_of(self);
    return py::cast(session->providers()).release().ptr();
  });
}

constexpr const char* kRunWithBinding =
    "run_with_iobinding($self, iobinding, /, run_options=None)\n--\n\n"
    "Run the model on what is bound; IOBinding.get_outputs() gives the outputs.\n\n"
    "Autograd sees the outputs as written to, also if the run fails.\n\n"
    "Args:\n"
    "    iobinding: what io_binding() gave. One thread at a time may use it.\n"
    "    run_options: as run takes them. LoRA adapters have no effect here.\n\n"
    "Raises:\n"
    "    ValueError: an input or every output is unbound, or another session's binding.\n"
    "    RuntimeError: another thread uses the binding.\n"
    "    OrtError: ONNX Runtime failed, for an output of another shape than before above all.";

std::array session_methods{
    PyMethodDef{"_require_unmade", refuse_made, METH_NOARGS, nullptr},
    PyMethodDef{"_set_script_object", set_script_object, METH_O, nullptr},
    PyMethodDef{"_call_untraced", c_function(call_untraced), METH_FASTCALL, nullptr},
    PyMethodDef{"_run", c_function(run), METH_FASTCALL, nullptr},
    PyMethodDef{"_run_into", c_function(run_into), METH_FASTCALL, nullptr},
    PyMethodDef{"run_with_iobinding", c_function(run_with_iobinding), METH_FASTCALL | METH_KEYWORDS,
                kRunWithBinding},
    PyMethodDef{"_start", c_function(start), METH_FASTCALL, nullptr},
    PyMethodDef{"_input_nodes", input_nodes, METH_NOARGS, nullptr},
    PyMethodDef{"_output_nodes", output_nodes, METH_NOARGS, nullptr},
    PyMethodDef{"_provider_names", provider_names, METH_NOARGS, nullptr},
    PyMethodDef{},
};

std::array session_members{
    PyMemberDef{"__vectorcalloffset__", T_PYSSIZET, offsetof(PySession, vectorcall), READONLY,
                nullptr},
    PyMemberDef{},
};

std::array session_properties{
    PyGetSetDef{"script_object", get_script_object, nullptr,
                "The torch.classes.ortdl.InferenceSession behind this object.", nullptr},
    PyGetSetDef{},
};

std::array session_slots{
    PyType_Slot{Py_tp_new, reinterpret_cast<void*>(create_session)},
    PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(dealloc_session)},
    PyType_Slot{Py_tp_call, reinterpret_cast<void*>(call)},
    PyType_Slot{Py_tp_methods, session_methods.data()},
    PyType_Slot{Py_tp_members, session_members.data()},
    PyType_Slot{Py_tp_getset, session_properties.data()},
    PyType_Slot{0, nullptr},
};

PyType_Spec session_spec{"ortdl_torch._C.InferenceSessionBase", sizeof(PySession), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_VECTORCALL,
                         session_slots.data()};

}  // namespace

const SessionPtr& session_arg(PyObject* object) {
  TORCH_CHECK_TYPE(session_type != nullptr && PyObject_TypeCheck(object, session_type),
                   "expected an ortdl_torch.InferenceSession, not ", Py_TYPE(object)->tp_name);
  return session_of(object);
}

bool add_session(PyObject* module) {
  session_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&session_spec));
  return session_type != nullptr &&
         PyModule_AddObjectRef(module, "InferenceSessionBase",
                               reinterpret_cast<PyObject*>(session_type)) == 0;
}

}  // namespace ortdl::python
