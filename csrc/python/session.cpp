#include <python/args.h>
#include <python/guarded.h>
#include <python/session.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <array>

namespace ortdl::python {
namespace {

struct PySession {
  PyObject_HEAD SessionPtr session;
};

SessionPtr& slot_of(PyObject* self) { return reinterpret_cast<PySession*>(self)->session; }

const SessionPtr& session_of(PyObject* self) {
  const SessionPtr& session = slot_of(self);
  TORCH_CHECK(session.defined(),
              "the session was not made: a subclass must call InferenceSession.__init__");
  return session;
}

PyObject* create(PyTypeObject* type, PyObject* /*args*/, PyObject* /*kwargs*/) {
  PyObject* self = type->tp_alloc(type, 0);
  if (self != nullptr) {
    new (&slot_of(self)) SessionPtr();
  }
  return self;
}

void drop(SessionPtr session) {
  // Releasing a session may wait for its threads.
  const py::gil_scoped_release released;
  session.reset();
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  drop(std::move(slot_of(self)));
  slot_of(self).~SessionPtr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* set_script_object(PyObject* self, PyObject* object) {
  return guarded([&]() -> PyObject* {
    c10::IValue script;
    if (py::isinstance<torch::jit::Object>(object)) {
      script = py::cast<torch::jit::Object>(py::handle(object))._ivalue();
    }
    TORCH_CHECK_TYPE(*script.type() == *c10::getCustomClassType<SessionPtr>(),
                     "expected a torch.classes.ortdl.InferenceSession, not ",
                     Py_TYPE(object)->tp_name);
    slot_of(self) = script.toCustomClass<Session>();
    Py_RETURN_NONE;
  });
}

PyObject* get_script_object(PyObject* self, void* /*unused*/) {
  return guarded(
      [&] { return torch::jit::toPyObject(c10::IValue(session_of(self))).release().ptr(); });
}

// A model's inputs, collected by position and by name.
class Inputs {
 public:
  explicit Inputs(const Session& session) : session_(session) {
    tensors_.resize(session.inputs().size());
  }

  void positional(PyObject* args) {
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(args));
    TORCH_CHECK_VALUE(count <= tensors_.size(), "the model takes ", tensors_.size(),
                      " inputs, but ", count, " were given. ", expected());
    for (size_t i = 0; i < count; ++i) {
      set(i, PyTuple_GET_ITEM(args, static_cast<Py_ssize_t>(i)));
    }
  }

  void named(PyObject* mapping) {
    const auto items = py::reinterpret_steal<py::object>(PyMapping_Items(mapping));
    if (!items) {
      throw python_error();
    }
    for (const py::handle item : items) {
      PyObject* key = PyTuple_GET_ITEM(item.ptr(), 0);
      PyObject* object = PyTuple_GET_ITEM(item.ptr(), 1);
      TORCH_CHECK_TYPE(PyUnicode_Check(key), "an input's name must be a string, not ",
                       Py_TYPE(key)->tp_name, ". ", expected());
      const auto name = py::cast<std::string_view>(py::handle(key));
      const size_t index = session_.input_index(name);
      TORCH_CHECK_VALUE(!tensors_[index].defined(), "the input '", name,
                        "' was given by position and by name. ", expected());
      set(index, object);
    }
  }

  // With every input there, or an error that names the first that is not.
  at::TensorList complete() const {
    for (size_t i = 0; i < tensors_.size(); ++i) {
      TORCH_CHECK_VALUE(tensors_[i].defined(), "the model takes ", tensors_.size(),
                        " inputs, but the input '", session_.inputs()[i].name, "' was not given. ",
                        expected());
    }
    return tensors_;
  }

 private:
  void set(size_t index, PyObject* object) {
    TORCH_CHECK_TYPE(THPVariable_Check(object), "the input '", session_.inputs()[index].name,
                     "' must be a torch.Tensor, not ", Py_TYPE(object)->tp_name, ". ", expected());
    tensors_[index] = THPVariable_Unpack(object);
  }
  std::string expected() const { return "The model's inputs are: " + describe(session_.inputs()); }

  const Session& session_;
  c10::SmallVector<at::Tensor, 8> tensors_;
};

PyObject* call(PyObject* self, PyObject* args, PyObject* kwargs) {
  return guarded([&] {
    const SessionPtr session = session_of(self);
    Inputs inputs(*session);
    inputs.positional(args);
    if (kwargs != nullptr) {
      inputs.named(kwargs);
    }
    const at::TensorList tensors = inputs.complete();
    std::vector<at::Tensor> outputs;
    {
      const py::gil_scoped_release released;
      outputs = session->run(tensors);
    }
    py::tuple results(outputs.size());
    for (size_t i = 0; i < outputs.size(); ++i) {
      PyTuple_SET_ITEM(results.ptr(), static_cast<Py_ssize_t>(i),
                       THPVariable_Wrap(std::move(outputs[i])));
    }
    return results.release().ptr();
  });
}

std::vector<size_t> output_indices(const Session& session, py::handle names) {
  std::vector<size_t> indices;
  if (names.is_none()) {
    for (size_t i = 0; i < session.outputs().size(); ++i) {
      indices.push_back(i);
    }
    return indices;
  }
  TORCH_CHECK_TYPE(PyList_Check(names.ptr()) || PyTuple_Check(names.ptr()),
                   "output_names must be None or a list of names, not ",
                   Py_TYPE(names.ptr())->tp_name);
  for (const py::handle name : names) {
    TORCH_CHECK_TYPE(PyUnicode_Check(name.ptr()), "output_names must hold strings, not ",
                     Py_TYPE(name.ptr())->tp_name);
    indices.push_back(session.output_index(py::cast<std::string>(name)));
  }
  return indices;
}

PyObject* run(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&] {
    TORCH_CHECK_TYPE(count == 2, "run takes (output_names, feeds), but ", count,
                     " arguments were given");
    TORCH_CHECK_TYPE(PyDict_Check(args[1]), "feeds must be a dict of name: tensor, not ",
                     Py_TYPE(args[1])->tp_name);
    const SessionPtr session = session_of(self);
    const std::vector<size_t> names = output_indices(*session, args[0]);
    Inputs inputs(*session);
    inputs.named(args[1]);
    const at::TensorList tensors = inputs.complete();
    std::vector<at::Tensor> outputs;
    {
      const py::gil_scoped_release released;
      outputs = session->run(tensors, names);
    }
    return py::cast(outputs).release().ptr();
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
        shape.append(node.symbols[i].empty() ? py::none() : py::object(py::str(node.symbols[i])));
      }
    }
    result.append(py::make_tuple(node.name, node.type, shape));
  }
  return result;
}

PyObject* input_nodes(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] { return nodes(session_of(self)->inputs()).release().ptr(); });
}

PyObject* output_nodes(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] { return nodes(session_of(self)->outputs()).release().ptr(); });
}

PyObject* provider_names(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    py::list names;
    for (const Provider& provider : session_of(self)->config().providers) {
      names.append(provider.name);
    }
    return names.release().ptr();
  });
}

std::array methods{
    PyMethodDef{"_set_script_object", set_script_object, METH_O, nullptr},
    PyMethodDef{"_run", c_function(run), METH_FASTCALL, nullptr},
    PyMethodDef{"_input_nodes", input_nodes, METH_NOARGS, nullptr},
    PyMethodDef{"_output_nodes", output_nodes, METH_NOARGS, nullptr},
    PyMethodDef{"_provider_names", provider_names, METH_NOARGS, nullptr},
    PyMethodDef{},
};

std::array properties{
    PyGetSetDef{"script_object", get_script_object, nullptr,
                "The torch.classes.ortdl.InferenceSession behind this object.", nullptr},
    PyGetSetDef{},
};

std::array slots{
    PyType_Slot{Py_tp_new, reinterpret_cast<void*>(create)},
    PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
    PyType_Slot{Py_tp_call, reinterpret_cast<void*>(call)},
    PyType_Slot{Py_tp_methods, methods.data()},
    PyType_Slot{Py_tp_getset, properties.data()},
    PyType_Slot{0, nullptr},
};

PyType_Spec spec{"ortdl_torch._C.InferenceSessionBase", sizeof(PySession), 0,
                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots.data()};

}  // namespace

bool add_session(PyObject* module) {
  const auto type = py::reinterpret_steal<py::object>(PyType_FromSpec(&spec));
  return type && PyModule_AddObjectRef(module, "InferenceSessionBase", type.ptr()) == 0;
}

}  // namespace ortdl::python
