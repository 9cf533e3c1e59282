#include <ortdl/binding.h>
#include <python/args.h>
#include <python/binding.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/interrupt.h>
#include <python/ortvalue.h>
#include <python/run_options.h>
#include <python/session.h>

#include <array>
#include <memory>

namespace ortdl::python {
namespace {

struct PyBinding {
  PyObject_HEAD std::unique_ptr<Binding> binding;
};

PyTypeObject* binding_type = nullptr;

Binding& binding_of(PyObject* self) { return *reinterpret_cast<PyBinding*>(self)->binding; }

PyObject* create_binding(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(
        PyTuple_GET_SIZE(args) == 1 && (kwargs == nullptr || PyDict_GET_SIZE(kwargs) == 0),
        "IOBinding takes one InferenceSession");
    auto binding = std::make_unique<Binding>(session_arg(PyTuple_GET_ITEM(args, 0)));
    PyObject* self = type->tp_alloc(type, 0);
    if (self == nullptr) {
      throw python_error();
    }
    new (&reinterpret_cast<PyBinding*>(self)->binding) std::unique_ptr<Binding>(std::move(binding));
    return self;
  });
}

void dealloc_binding(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  auto& slot = reinterpret_cast<PyBinding*>(self)->binding;
  {
    // It may hold the last reference to its session, whose release waits.
    const WithoutGil released;
    slot.reset();
  }
  slot.~unique_ptr();
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* bind_input(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 2, "bind_input takes (name, tensor)");
    Binding& binding = binding_of(self);
    const size_t index = binding.session()->input_index(name_arg(args[0], "an input's name"));
    if (is_tensor(args[1])) {
      binding.bind_input(index, THPVariable_Unpack(args[1]));
    } else {
      ValuePtr storage;
      const Node& node = binding.session()->inputs()[index];
      binding.bind_input(index, value_for(args[1], storage, "input", node.name));
    }
    Py_RETURN_NONE;
  });
}

PyObject* bind_output(PyObject* self, PyObject* const* args, Py_ssize_t count) {
  return guarded([&]() -> PyObject* {
    TORCH_CHECK_TYPE(count == 2, "bind_output takes (name, tensor or None)");
    Binding& binding = binding_of(self);
    const size_t index = binding.session()->output_index(name_arg(args[0], "an output's name"));
    if (Py_IsNone(args[1]) != 0) {
      binding.bind_output(index);
    } else if (is_tensor(args[1])) {
      binding.bind_output(index, THPVariable_Unpack(args[1]));
    } else {
      ValuePtr storage;
      const Node& node = binding.session()->outputs()[index];
      binding.bind_output(index, value_for(args[1], storage, "output", node.name));
    }
    Py_RETURN_NONE;
  });
}

PyObject* clear_inputs(PyObject* self, PyObject* /*unused*/) {
  return guarded([&]() -> PyObject* {
    binding_of(self).clear_inputs();
    Py_RETURN_NONE;
  });
}

PyObject* clear_outputs(PyObject* self, PyObject* /*unused*/) {
  return guarded([&]() -> PyObject* {
    binding_of(self).clear_outputs();
    Py_RETURN_NONE;
  });
}

PyObject* get_outputs(PyObject* self, PyObject* /*unused*/) {
  return guarded([&] {
    py::list values;
    for (ValuePtr& value : binding_of(self).outputs()) {
      values.append(py::reinterpret_steal<py::object>(wrap_value(std::move(value))));
    }
    return values.release().ptr();
  });
}

std::array binding_methods{
    PyMethodDef{"_bind_input", c_function(bind_input), METH_FASTCALL, nullptr},
    PyMethodDef{"_bind_output", c_function(bind_output), METH_FASTCALL, nullptr},
    PyMethodDef{"clear_binding_inputs", clear_inputs, METH_NOARGS, "Bind no input any more."},
    PyMethodDef{"clear_binding_outputs", clear_outputs, METH_NOARGS, "Bind no output any more."},
    PyMethodDef{
        "get_outputs", get_outputs, METH_NOARGS,
        "The outputs as OrtValues, in the order in which they were bound.\n\n"
        "They are the memory that was bound, or that the first run allocated: the next run\n"
        "writes into it again.\n\n"
        "Raises:\n"
        "    RuntimeError: an output is left to ONNX Runtime, and nothing was run yet."},
    PyMethodDef{},
};

std::array binding_slots{
    PyType_Slot{Py_tp_new, reinterpret_cast<void*>(create_binding)},
    PyType_Slot{Py_tp_dealloc, reinterpret_cast<void*>(dealloc_binding)},
    PyType_Slot{Py_tp_methods, binding_methods.data()},
    PyType_Slot{0, nullptr},
};

PyType_Spec binding_spec{"ortdl_torch._C.IOBindingBase", sizeof(PyBinding), 0,
                         Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, binding_slots.data()};

}  // namespace

bool add_binding(PyObject* module) {
  binding_type = reinterpret_cast<PyTypeObject*>(PyType_FromSpec(&binding_spec));
  return binding_type != nullptr &&
         PyModule_AddObjectRef(module, "IOBindingBase",
                               reinterpret_cast<PyObject*>(binding_type)) == 0;
}

PyObject* run_with_iobinding(PyObject* self, PyObject* const* args, Py_ssize_t count,
                             PyObject* names) {
  return guarded([&]() -> PyObject* {
    const Py_ssize_t named = names == nullptr ? 0 : PyTuple_GET_SIZE(names);
    const bool takes = count + named == 2 && named < 2
                           ? named == 0 || PyUnicode_CompareWithASCIIString(
                                               PyTuple_GET_ITEM(names, 0), "run_options") == 0
                           : count == 1 && named == 0;
    TORCH_CHECK_TYPE(takes, "run_with_iobinding takes (iobinding, run_options=None)");
    TORCH_CHECK_TYPE(PyObject_TypeCheck(args[0], binding_type),
                     "iobinding must be what session.io_binding() gives, not ",
                     Py_TYPE(args[0])->tp_name);
    OrtRunOptions* options = count + named == 2 ? run_options_arg(args[1]) : nullptr;
    Binding& binding = binding_of(args[0]);
    TORCH_CHECK_VALUE(session_arg(self) == binding.session(),
                      "the binding was made for another session");
    run_interruptibly([&] { binding.run(options); });
    Py_RETURN_NONE;
  });
}

}  // namespace ortdl::python
