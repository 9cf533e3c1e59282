#include <ortdl/empty_sequence.h>
#include <ortdl/sequence.h>
#include <ortdl/type_string.h>
#include <ortdl/wording.h>
#include <python/args.h>
#include <python/convert.h>
#include <python/gil.h>
#include <python/map.h>
#include <python/nested.h>
#include <python/ortvalue.h>
#include <python/text_arg.h>

#include <vector>

namespace ortdl::python {
namespace {

ValuePtr item_of(py::handle object, std::string_view type) {
  ValuePtr item = nested_arg(object, type);
  const std::string given = item->type_string();
  TORCH_CHECK_TYPE(given == type, "expected ", with_article(type), ", but one of the list is ",
                   with_article(given));
  TORCH_CHECK_VALUE(!item->is_tensor() || item->device().is_cpu(),
                    "tensors in a list must be on the CPU, but one is on ", item->device(),
                    ": move it with tensor.cpu()");
  return item;
}

ValuePtr sequence_of(py::handle object, std::string_view type) {
  TORCH_CHECK_TYPE(PyList_Check(object.ptr()) || PyTuple_Check(object.ptr()),
                   "expected a list or tuple, each of it ", with_article(inner_type(type, "seq")),
                   ", not ", Py_TYPE(object.ptr())->tp_name);
  // Other threads may change the list while a tensor is copied.
  const auto items = py::reinterpret_steal<py::object>(
      PyList_Check(object.ptr()) ? PyList_AsTuple(object.ptr()) : object.inc_ref().ptr());
  if (!items) {
    throw python_error();
  }
  const Py_ssize_t count = PyTuple_GET_SIZE(items.ptr());
  if (count == 0) {
    const WithoutGil released;
    return empty_sequence(type);
  }
  std::vector<ValuePtr> values;
  values.reserve(static_cast<size_t>(count));
  for (Py_ssize_t i = 0; i < count; ++i) {
    values.push_back(item_of(PyTuple_GET_ITEM(items.ptr(), i), inner_type(type, "seq")));
  }
  return make_sequence(values);
}

ValuePtr tensor_of(py::handle object, std::string_view type) {
  TORCH_CHECK_TYPE(is_tensor(object.ptr()), "expected a torch.Tensor or an OrtValue, ",
                   with_article(type), ", not ", Py_TYPE(object.ptr())->tp_name,
                   is_array(object) ? ": use torch.from_numpy(array)" : "");
  ValuePtr value = value_of_tensor(THPVariable_Unpack(object.ptr()), Copy::kIfNeeded);
  TORCH_CHECK_TYPE(value->type_string() == type, "expected a tensor of ", with_article(type),
                   ", but one of ", with_article(value->type_string()),
                   " was given: convert it with tensor.to(dtype)");
  return value;
}

}  // namespace

ValuePtr nested_arg(py::handle object, std::string_view type) {
  if (const std::string_view inner = inner_type(type, "optional"); !inner.empty()) {
    return object.is_none() ? c10::make_intrusive<Value>(ValueHandle()) : nested_arg(object, inner);
  }
  if (ValuePtr value = value_or_null(object.ptr()); value.defined()) {
    return value;
  }
  if (type == "tensor(string)") {
    return text_arg(object);
  }
  if (!inner_type(type, "seq").empty()) {
    return sequence_of(object, type);
  }
  if (!inner_type(type, "map").empty()) {
    return map_arg(object, type);
  }
  return tensor_of(object, type);
}

py::object nested_result(const ValuePtr& value) {
  if (!value->has_value()) {
    return py::none();
  }
  if (is_text(*value)) {
    return text_result(Text(*value));
  }
  if (value->kind() != ONNX_TYPE_SEQUENCE && value->kind() != ONNX_TYPE_MAP) {
    return py::reinterpret_steal<py::object>(THPVariable_Wrap(value->to_tensor()));
  }
  std::vector<ValuePtr> found;
  {
    const WithoutGil released;
    found = parts(*value);
  }
  if (value->kind() == ONNX_TYPE_MAP) {
    return map_result(*found[0], *found[1]);
  }
  py::list items(found.size());
  for (size_t i = 0; i < found.size(); ++i) {
    PyList_SET_ITEM(items.ptr(), static_cast<Py_ssize_t>(i),
                    nested_result(found[i]).release().ptr());
  }
  return items;
}

}  // namespace ortdl::python
