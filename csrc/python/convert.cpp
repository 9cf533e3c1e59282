#include <ortdl/shareable.h>
#include <python/args.h>
#include <python/convert.h>
#include <python/export.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/import.h>
#include <python/ortvalue.h>
#include <torch/csrc/utils/pybind.h>

#include <array>
#include <vector>

namespace ortdl::python {

ValuePtr value_of_tensor(const at::Tensor& tensor, Copy copy) {
  if (copy == Copy::kNever || (copy == Copy::kIfNeeded && detail::is_shareable(tensor)))
      [[likely]] {
    // Shared with the GIL, so that no other thread resizes it meanwhile.
    return Value::from_tensor(tensor, copy);
  }
  // Without the GIL, another thread may drop the caller's.
  const at::Tensor held = tensor;  // NOLINT(performance-unnecessary-copy-initialization)
  const WithoutGil released;
  return Value::from_tensor(held, copy);
}

namespace {

constexpr const char* kForArray = "OrtValue.ortvalue_from_numpy(array)";

// One positional argument and the keyword `copy`, as both conversions take them.
struct Args {
  PyObject* subject;
  Copy copy;
};

Args parse(const char* function, PyObject* const* args, Py_ssize_t count, PyObject* names) {
  TORCH_CHECK_TYPE(count == 1, function,
                   " takes one positional argument and the keyword copy, but ", count,
                   " positional arguments were given");
  if (names == nullptr || PyTuple_GET_SIZE(names) == 0) [[likely]] {
    return {args[0], Copy::kNever};
  }
  for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(names); ++i) {
    PyObject* name = PyTuple_GET_ITEM(names, i);
    TORCH_CHECK_TYPE(PyUnicode_CompareWithASCIIString(name, "copy") == 0, function,
                     " has no keyword argument '", py::cast<std::string>(py::handle(name)), "'");
  }
  return {args[0], copy_arg(args[count])};
}

// Copying may take long.
at::Tensor tensor_of_value(const ValuePtr& value, Copy copy) {
  if (copy == Copy::kNever) [[likely]] {
    return value->to_tensor(copy);
  }
  const ValuePtr held = value;  // NOLINT(performance-unnecessary-copy-initialization)
  const WithoutGil released;
  return held->to_tensor(copy);
}

PyObject* to_ortvalue(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                      PyObject* names) {
  return guarded([&] {
    const auto [subject, copy] = parse("to_ortvalue", args, count, names);
    const at::Tensor& tensor = tensor_arg(subject, "the argument of to_ortvalue", kForArray);
    return wrap_value(value_of_tensor(tensor, copy));
  });
}

PyObject* from_ortvalue(PyObject* /*module*/, PyObject* const* args, Py_ssize_t count,
                        PyObject* names) {
  return guarded([&] {
    const auto [subject, copy] = parse("from_ortvalue", args, count, names);
    ValuePtr storage;
    const ValuePtr& value = unwrap_value(subject, storage);
    return THPVariable_Wrap(tensor_of_value(value, copy));
  });
}

// The items of `sequence` through `convert`, as a list: all of them, or none and an exception.
template <typename Convert>
PyObject* convert_all(PyObject* sequence, const char* expected, Convert&& convert) {
  TORCH_CHECK_TYPE(
      PySequence_Check(sequence) || PyIter_Check(sequence) || Py_TYPE(sequence)->tp_iter != nullptr,
      expected, ", not ", Py_TYPE(sequence)->tp_name);
  const auto items = py::reinterpret_steal<py::object>(
      PySequence_Fast(sequence, "expected a sequence (list or tuple)"));
  if (!items) {
    throw python_error();
  }
  const Py_ssize_t count = PySequence_Fast_GET_SIZE(items.ptr());
  py::list results(count);
  for (Py_ssize_t i = 0; i < count; ++i) {
    // Converting may run Python, which may change the list.
    TORCH_CHECK_VALUE(PySequence_Fast_GET_SIZE(items.ptr()) == count,
                      "the sequence changed its size while it was converted");
    const auto item = py::reinterpret_borrow<py::object>(PySequence_Fast_GET_ITEM(items.ptr(), i));
    PyList_SET_ITEM(results.ptr(), i, convert(item.ptr()));
  }
  return results.release().ptr();
}

PyObject* to_ortvalues(PyObject* /*module*/, PyObject* tensors) {
  return guarded([&] {
    return convert_all(
        tensors, "to_ortvalues takes a list or tuple of tensors", [](PyObject* item) {
          return wrap_value(
              Value::from_tensor(tensor_arg(item, "each item of to_ortvalues", kForArray)));
        });
  });
}

PyObject* from_ortvalues(PyObject* /*module*/, PyObject* values) {
  return guarded([&] {
    return convert_all(values, "from_ortvalues takes a list or tuple of OrtValues",
                       [](PyObject* item) {
                         ValuePtr storage;
                         return THPVariable_Wrap(unwrap_value(item, storage)->to_tensor());
                       });
  });
}

constexpr const char* kToOrtvalue =
    "to_ortvalue(tensor, /, *, copy=False)\n--\n\n"
    "An OrtValue of a tensor, over the same memory.\n\n"
    "The value keeps the tensor's memory alive and may be used and dropped on any thread. The\n"
    "tensor's storage is marked as not resizable, as Tensor.numpy() does. On an accelerator its\n"
    "elements are those of the stream that is current now: other streams wait for it by events.\n\n"
    "Args:\n"
    "    tensor: any dense tensor on the CPU, CUDA or ROCm; torch.float4_e2m1fn_x2 gives a "
    "float4e2m1 value whose last\n"
    "        dimension is twice as long.\n"
    "    copy: False shares memory or raises, None copies only where it must, True always "
    "copies.\n\n"
    "Raises:\n"
    "    BufferError: there is no memory to share (sparse, meta, fake, functional, a storage\n"
    "        resized to 0), the tensor requires grad while grad mode is on, or a negation or\n"
    "        conjugation is pending and copy is False.\n"
    "    TypeError: no tensor, or ONNX Runtime has no such dtype.\n"
    "    ValueError: copy is False and the tensor is not contiguous, or another device.";

constexpr const char* kFromOrtvalue =
    "from_ortvalue(value, /, *, copy=False)\n--\n\n"
    "A tensor of an OrtValue, over the same memory, which it keeps alive.\n\n"
    "On an accelerator the stream that is current now waits, by an event, until the elements are\n"
    "there.\n\n"
    "Args:\n"
    "    value: an ortdl_torch.OrtValue, torch.classes.ortdl.OrtValue or onnxruntime.OrtValue; of "
    "the\n"
    "        latter, the array under it is kept alive too, and its elements have to be ready for\n"
    "        the current stream: onnxruntime's values say nothing of streams.\n"
    "    copy: False shares memory or raises, None copies only what is read-only, True always "
    "copies.\n\n"
    "Raises:\n"
    "    BufferError: the value is read-only and copy is False.\n"
    "    TypeError: no OrtValue, the value is no tensor, or PyTorch has no dense tensor of its\n"
    "        element type: OrtValue.packed() gives the bytes of the packed types.";

constexpr const char* kToOrtvalues =
    "to_ortvalues(tensors, /)\n--\n\n"
    "OrtValues of several tensors, as to_ortvalue(tensor) makes them: all or none.";

constexpr const char* kFromOrtvalues =
    "from_ortvalues(values, /)\n--\n\n"
    "Tensors of several OrtValues, as from_ortvalue(value) makes them: all or none.";

constexpr const char* kToDlpack =
    "to_dlpack(value, /, *, max_version=None)\n--\n\n"
    "A DLPack capsule over an OrtValue's memory, which it keeps alive.\n\n"
    "On an accelerator, for a reader on the stream that is current now, which waits by an "
    "event.\n\n"
    "Args:\n"
    "    value: as from_ortvalue takes it.\n"
    "    max_version: the newest version that the reader knows, as (1, 0); None gives the struct "
    "of\n"
    "        DLPack before 1.0.\n\n"
    "Raises:\n"
    "    BufferError: the value is read-only, which the older struct cannot say.\n"
    "    TypeError: no OrtValue, or no tensor of a supported type in it.";

constexpr const char* kFromDlpack =
    "from_dlpack(x, /, *, device=None, copy=None)\n--\n\n"
    "An OrtValue of what a DLPack capsule, or any object with __dlpack__, holds.\n\n"
    "A capsule is used up unless it is refused. Memory that Python objects own is given back by a\n"
    "thread that holds the GIL, so the value may be dropped on any thread.\n\n"
    "Of an accelerator, a producer is asked, with its device current, to let that device's "
    "current\n"
    "stream wait for the elements; while that stream is captured into a graph, to order nothing\n"
    "(stream=-1), so that the caller has to have done it. A bare capsule has to be ready for it. "
    "Whatever the producer does, the current\n"
    "device and streams are afterwards as they were.\n\n"
    "Args:\n"
    "    x: capsule, or object with __dlpack__ and __dlpack_device__.\n"
    "    device: None, or where the value is to be: a torch.device, its name or DLPack's pair, "
    "such\n"
    "        as (1, 0) for the CPU. The elements are copied there if they are elsewhere, which "
    "makes\n"
    "        the host wait if either is the CPU; the GIL is released meanwhile.\n"
    "    copy: None shares memory and copies what is not contiguous or not aligned, False shares "
    "or\n"
    "        raises, True copies.\n\n"
    "Raises:\n"
    "    TypeError: no such object, or an element type without counterpart.\n"
    "    ValueError: copy is False and a copy would be needed, the capsule was used already, "
    "another\n"
    "        device than this PyTorch has, or fields that make no sense.\n"
    "    RuntimeError: a wait that would break the capture of a stream into a graph.\n"
    "    BufferError: a tensor that requires grad, a newer major version of DLPack, or two "
    "answers\n"
    "        about the device. What the producer raises arrives as it is.";

std::array conversions{
    PyMethodDef{"to_ortvalue", c_function(to_ortvalue), METH_FASTCALL | METH_KEYWORDS, kToOrtvalue},
    PyMethodDef{"from_ortvalue", c_function(from_ortvalue), METH_FASTCALL | METH_KEYWORDS,
                kFromOrtvalue},
    PyMethodDef{"to_dlpack", c_function(to_dlpack), METH_FASTCALL | METH_KEYWORDS, kToDlpack},
    PyMethodDef{"from_dlpack", c_function(from_dlpack), METH_FASTCALL | METH_KEYWORDS, kFromDlpack},
    PyMethodDef{"to_ortvalues", to_ortvalues, METH_O, kToOrtvalues},
    PyMethodDef{"from_ortvalues", from_ortvalues, METH_O, kFromOrtvalues},
    PyMethodDef{},
};

}  // namespace

PyMethodDef* conversion_functions() noexcept { return conversions.data(); }

}  // namespace ortdl::python
