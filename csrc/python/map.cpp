#include <ATen/ATen.h>
#include <ortdl/real_ops.h>
#include <ortdl/sequence.h>
#include <ortdl/type_string.h>
#include <python/args.h>
#include <python/map.h>
#include <python/text_arg.h>

#include <span>

namespace ortdl::python {
namespace {

ValuePtr strings_of(const py::list& items) {
  ValuePtr text = text_arg(items);
  TORCH_CHECK_TYPE(text->sizes().size() == 1, "expected a dict of strings, not of lists of them");
  return text;
}

ValuePtr integers_of(const py::list& items) {
  const RealOps real;
  const at::Tensor numbers = at::empty({static_cast<int64_t>(items.size())}, at::kLong);
  auto* next = numbers.mutable_data_ptr<int64_t>();
  for (const py::handle item : items) {
    *next++ = int_arg(item.ptr(), "each integer key or value of a map");
  }
  return Value::from_tensor(numbers);
}

ValuePtr floats_of(const py::list& items, at::ScalarType type) {
  const RealOps real;
  const at::Tensor numbers = at::empty({static_cast<int64_t>(items.size())}, at::kDouble);
  auto* next = numbers.mutable_data_ptr<double>();
  for (const py::handle item : items) {
    TORCH_CHECK_TYPE(PyNumber_Check(item.ptr()), "each value of a map must be a number, not ",
                     Py_TYPE(item.ptr())->tp_name);
    const double number = PyFloat_AsDouble(item.ptr());
    if (number == -1 && PyErr_Occurred() != nullptr) {
      throw python_error();
    }
    *next++ = number;
  }
  return Value::from_tensor(numbers.to(type));
}

// The keys or the values of a dict as a flat tensor.
ValuePtr column(const py::list& items, std::string_view type) {
  if (type == "string") {
    return strings_of(items);
  }
  if (type == "int64") {
    return integers_of(items);
  }
  TORCH_CHECK_TYPE(type == "float" || type == "double",
                   "a map has keys of int64 or string, and values of int64, string, float or "
                   "double, not ",
                   type);
  return floats_of(items, type == "float" ? at::kFloat : at::kDouble);
}

template <typename T>
py::list list_of(const Value& value) {
  py::list items;
  for (const T number :
       std::span(static_cast<const T*>(value.data()), value.nbytes() / sizeof(T))) {
    items.append(number);
  }
  return items;
}

py::list list_of_any(const Value& value) {
  if (is_text(value)) {
    return text_result(Text(value));
  }
  switch (value.type().scalar) {
    case at::kLong:
      return list_of<int64_t>(value);
    case at::kFloat:
      return list_of<float>(value);
    case at::kDouble:
      return list_of<double>(value);
    default:
      TORCH_CHECK_TYPE(false, "a map of ", value.type_string(), " elements has no dict");
  }
}

}  // namespace

ValuePtr map_arg(py::handle object, std::string_view type) {
  TORCH_CHECK_TYPE(PyDict_Check(object.ptr()), "expected a dict, a ", type, ", not ",
                   Py_TYPE(object.ptr())->tp_name);
  const std::string_view inner = inner_type(type, "map");
  const size_t comma = inner.find(',');
  const auto keys = py::reinterpret_steal<py::list>(PyDict_Keys(object.ptr()));
  const auto values = py::reinterpret_steal<py::list>(PyDict_Values(object.ptr()));
  if (!keys || !values) {
    throw python_error();
  }
  TORCH_CHECK_VALUE(keys.size() == values.size(), "the dict changed while it was read");
  return make_map(*column(keys, inner.substr(0, comma)),
                  *column(values, inner_type(inner.substr(comma + 1), "tensor")));
}

py::dict map_result(const Value& keys, const Value& values) {
  const py::list names = list_of_any(keys);
  const py::list items = list_of_any(values);
  py::dict result;
  for (size_t i = 0; i < names.size(); ++i) {
    result[names[i]] = items[i];
  }
  return result;
}

}  // namespace ortdl::python
