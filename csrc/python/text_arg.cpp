#include <python/args.h>
#include <python/text_arg.h>

#include <string_view>
#include <vector>

namespace ortdl::python {
namespace {

constexpr size_t kMaxDepth = 64;  // the most dimensions that PyTorch has

bool is_list(PyObject* object) noexcept { return PyList_Check(object) || PyTuple_Check(object); }

Py_ssize_t length(PyObject* list) noexcept { return PySequence_Fast_GET_SIZE(list); }

// The shape of nested lists, if all are like the first at each depth.
std::vector<int64_t> shape_of(PyObject* object) {
  std::vector<int64_t> sizes;
  while (is_list(object)) {
    TORCH_CHECK_VALUE(sizes.size() < kMaxDepth, "lists of strings can be nested ", kMaxDepth,
                      " deep at most");
    sizes.push_back(length(object));
    if (sizes.back() == 0) {
      break;
    }
    object = PySequence_Fast_GET_ITEM(object, 0);
  }
  return sizes;
}

// Views of the strings in nested lists. Nothing here runs Python code or makes an object that
// starts a garbage collection, so that the lists stay as they are while the GIL is held.
class Strings {
 public:
  explicit Strings(PyObject* object) : sizes_(shape_of(object)) { add(object, 0); }

  [[nodiscard]] const std::vector<int64_t>& sizes() const noexcept { return sizes_; }
  [[nodiscard]] const std::vector<std::string_view>& all() const noexcept { return all_; }

 private:
  void add(PyObject* object, size_t depth) {
    if (!is_list(object)) {
      add_string(object, depth);
      return;
    }
    TORCH_CHECK_VALUE(depth < sizes_.size() && sizes_[depth] == length(object),
                      "the lists of strings are ragged: the first ones make the shape ",
                      at::IntArrayRef(sizes_), ", but there is a list of ", length(object), " at ",
                      "depth ", depth, ": give lists of equal lengths");
    for (Py_ssize_t i = 0; i < length(object); ++i) {
      add(PySequence_Fast_GET_ITEM(object, i), depth + 1);
    }
  }

  void add_string(PyObject* object, size_t depth) {
    Py_ssize_t size = 0;
    const char* bytes = nullptr;
    if (PyUnicode_Check(object)) {
      bytes = PyUnicode_AsUTF8AndSize(object, &size);
      if (bytes == nullptr) {
        throw python_error();
      }
    } else {
      TORCH_CHECK_TYPE(PyBytes_Check(object),
                       "expected a str, bytes, a list or tuple of them, or a NumPy array of them, "
                       "not ",
                       Py_TYPE(object)->tp_name);
      bytes = PyBytes_AS_STRING(object);
      size = PyBytes_GET_SIZE(object);
    }
    TORCH_CHECK_VALUE(depth == sizes_.size(),
                      "the lists of strings are ragged: the first ones make the shape ",
                      at::IntArrayRef(sizes_), ", but there is a string at depth ", depth);
    all_.emplace_back(bytes, static_cast<size_t>(size));
  }

  std::vector<int64_t> sizes_;
  std::vector<std::string_view> all_;
};

ValuePtr text_of_array(py::handle object) {
  // Without what a subclass may have made of its methods.
  const py::object array = py::module_::import("numpy").attr("asarray")(object);
  const auto kind = py::cast<std::string>(array.attr("dtype").attr("kind"));
  TORCH_CHECK_TYPE(std::string_view("USOT").find(kind) != std::string_view::npos,
                   "expected a NumPy array of strings, not one of dtype ",
                   py::cast<std::string>(py::str(array.attr("dtype"))));
  const auto sizes = py::cast<std::vector<int64_t>>(array.attr("shape"));
  const py::object items = array.attr("ravel")().attr("tolist")();
  const Strings strings(items.ptr());
  TORCH_CHECK_TYPE(strings.sizes().size() == 1, "expected a NumPy array of str or bytes, not of ",
                   "lists");
  return make_text(strings.all(), sizes);
}

py::object list_of(const Text& text, at::IntArrayRef sizes, size_t& next) {
  if (sizes.empty()) {
    const std::string_view string = text[next++];
    auto decoded = py::reinterpret_steal<py::object>(
        PyUnicode_DecodeUTF8(string.data(), static_cast<Py_ssize_t>(string.size()), "strict"));
    if (!decoded) {
      throw python_error();
    }
    return decoded;
  }
  py::list list(sizes[0]);
  for (int64_t i = 0; i < sizes[0]; ++i) {
    PyList_SET_ITEM(list.ptr(), i, list_of(text, sizes.slice(1), next).release().ptr());
  }
  return list;
}

}  // namespace

bool is_array(py::handle object) {
  const py::object array = py::module_::import("numpy").attr("ndarray");
  return PyObject_TypeCheck(object.ptr(), reinterpret_cast<PyTypeObject*>(array.ptr())) != 0;
}

ValuePtr text_arg(py::handle object) {
  if (!is_list(object.ptr()) && is_array(object)) {
    return text_of_array(object);
  }
  const Strings strings(object.ptr());
  return make_text(strings.all(), strings.sizes());
}

py::object text_result(const Text& text) {
  TORCH_CHECK_VALUE(text.sizes().size() <= kMaxDepth, "the strings have ", text.sizes().size(),
                    " dimensions, and lists of at most ", kMaxDepth, " levels are made");
  size_t next = 0;
  return list_of(text, text.sizes(), next);
}

}  // namespace ortdl::python
