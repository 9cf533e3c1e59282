#include <dlfcn.h>
#include <ortdl/wording.h>
#include <python/args.h>
#include <python/instance.h>
#include <python/release_queue.h>
#include <python/stock.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <bit>
#include <cctype>
#include <utility>

namespace ortdl::python {
namespace {

// onnxruntime's Python class of values, and the class of C++ that it wraps.
PyObject* stock_class = nullptr;
PyObject* native_class = nullptr;
// How ONNX Runtime's values say that they are tensors; null where that is not known.
const void* tensor_kind = nullptr;

// The third word of ONNX Runtime's values points to what they are, an object in its library.
const void* kind_of(PyObject* native) {
  const auto* words = static_cast<const void* const*>(held_by(native));
  return words == nullptr ? nullptr : words[2];
}

const void* library_of(const void* object) {
  Dl_info found{};
  return dladdr(object, &found) != 0 ? found.dli_fbase : nullptr;
}

// Whether `native`, of the class of values, holds one. It may have been made as something else:
// Python lets its `__class__` be set. Those in a list of outputs own nothing, so that it cannot be
// told by the memory that they own.
bool holds_value(PyObject* native) {
  const void* kind = kind_of(native);
  return kind != nullptr && (tensor_kind == nullptr || kind == tensor_kind ||
                             library_of(kind) == library_of(tensor_kind));
}

// A reference that may be dropped on any thread.
class SharedReference {
 public:
  explicit SharedReference(py::handle object) noexcept : object_(object.inc_ref().ptr()) {}
  SharedReference(SharedReference&& other) noexcept
      : object_(std::exchange(other.object_, nullptr)) {}
  SharedReference& operator=(SharedReference&&) = delete;
  SharedReference(const SharedReference&) = delete;
  SharedReference& operator=(const SharedReference&) = delete;
  ~SharedReference() {
    if (object_ != nullptr) {
      release_with_gil({.function = [](void* object) { Py_DECREF(static_cast<PyObject*>(object)); },
                        .object = object_});
    }
  }

 private:
  PyObject* object_;
};

// Where the value is. Its own DLPack export calls ROCm memory CUDA's too; only the name tells.
at::Device device_of_stock(const py::object& stock) {
  auto name = py::cast<std::string>(stock.attr("device_name")());
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
  if (name == "cpu") {
    return at::kCPU;
  }
  TORCH_CHECK_VALUE(name == "cuda" || name == "hip", "the onnxruntime.OrtValue is on device '",
                    name,
                    "', and tensors are exchanged in CPU, CUDA and ROCm memory only: copy it to "
                    "the CPU with onnxruntime first");
  const auto [type, index] =
      pair_arg(stock.attr("__dlpack_device__")().ptr(), "the device of an onnxruntime.OrtValue");
  return device_of(DLDevice{.device_type = name == "hip" ? kDLROCM : kDLCUDA,
                            .device_id = static_cast<int32_t>(index)});
}

}  // namespace

void set_stock_classes(PyObject* wrapper, PyObject* native, PyObject* made) {
  TORCH_CHECK_TYPE(PyType_Check(wrapper) && PyType_Check(native),
                   "expected the class onnxruntime.OrtValue and the one that it wraps");
  Py_INCREF(wrapper);
  Py_INCREF(native);
  stock_class = wrapper;
  native_class = native;
  if (OwnedClass(native, made).is_known() && library_of(kind_of(made)) != nullptr) {
    tensor_kind = kind_of(made);
  }
}

std::string described_stranger(PyObject* object) {
  std::string name = Py_TYPE(object)->tp_name;
  if (!name.ends_with("OrtValue")) {
    return name;
  }
  const py::handle type(reinterpret_cast<PyObject*>(Py_TYPE(object)));
  const py::object module = py::getattr(type, "__module__", py::none());
  const std::string home = py::isinstance<py::str>(module) ? module.cast<std::string>() : "?";
  return c10::str("an OrtValue of the module '", home,
                  "', which is another class: one of a second onnxruntime in this process, or the "
                  "one inside of onnxruntime.OrtValue. Pass ortdl_torch.from_dlpack(value), which "
                  "shares its memory");
}

ValuePtr value_of_stock(PyObject* object) {
  if (stock_class == nullptr ||
      !PyObject_TypeCheck(object, reinterpret_cast<PyTypeObject*>(stock_class))) {
    return {};
  }
  drain_release_queue();
  // The wrapper can be changed and subclassed, so what it holds now is asked, and kept.
  const py::handle wrapper(object);
  const py::object stock = py::getattr(wrapper, "_ortvalue", py::none());
  TORCH_CHECK_TYPE(
      reinterpret_cast<PyObject*>(Py_TYPE(stock.ptr())) == native_class && holds_value(stock.ptr()),
      "the onnxruntime.OrtValue holds no value of onnxruntime");
  const py::object holders = py::make_tuple(stock, py::getattr(wrapper, "_numpy_obj", py::none()),
                                            py::getattr(wrapper, "_session", py::none()));
  const auto text = py::cast<std::string>(stock.attr("data_type")());
  TORCH_CHECK_TYPE(py::cast<bool>(stock.attr("is_tensor")()), "the onnxruntime.OrtValue holds ",
                   with_article(text), ", not a tensor: read it with onnxruntime itself");
  TORCH_CHECK_TYPE(!text.starts_with("tensor(string)"), "PyTorch has no counterpart of a ", text,
                   ": read the value with onnxruntime itself");
  const at::Device device = device_of_stock(stock);
  const ElementType& type = element_type_from_onnx(py::cast<int64_t>(stock.attr("element_type")()));
  const auto sizes = py::cast<std::vector<int64_t>>(stock.attr("shape")());
  const auto address = py::cast<uintptr_t>(stock.attr("data_ptr")());
  const int64_t count = c10::multiply_integers(sizes);
  const Layout layout{.type = &type,
                      .data = count == 0 ? nullptr : std::bit_cast<void*>(address),
                      .device = device,
                      .sizes = sizes};
  return c10::make_intrusive<Value>(
      make_owning(SharedReference(holders), layout, type.bytes(count)), layout,
      StreamUse::on(device));
}

}  // namespace ortdl::python
