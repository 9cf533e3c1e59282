#include <ortdl/wording.h>
#include <python/args.h>
#include <python/capsule.h>
#include <python/protocol.h>
#include <python/stream_arg.h>

#include <array>
#include <utility>

namespace ortdl::python {
namespace {

// True if looking `name` up finds something without running the object's own code.
bool exists_statically(py::handle object, py::handle name) {
  const py::object missing = py::module_::import("builtins").attr("object")();
  const py::object found =
      py::module_::import("inspect").attr("getattr_static")(object, name, missing);
  return !found.is(missing);
}

// True if `error` says that `object` itself has no attribute `name`. An error that names another
// attribute or object comes from within the lookup.
bool says_missing(const py::error_already_set& error, py::handle object, py::handle name) {
  const py::object named = py::getattr(error.value(), "name", py::none());
  const py::object owner = py::getattr(error.value(), "obj", py::none());
  return named.is_none() || (named.equal(name) && (owner.is_none() || owner.is(object)));
}

// The method `name`: a TypeError if the object has none, but what its own lookup raises unchanged.
py::object protocol_method(PyObject* object, py::handle name) {
  try {
    return py::handle(object).attr(name);
  } catch (py::error_already_set& error) {
    if (!error.matches(PyExc_AttributeError) || exists_statically(object, name) ||
        !says_missing(error, object, name)) {
      throw;
    }
    py::raise_from(
        error, PyExc_TypeError,
        c10::str("expected a DLPack capsule or an object with __dlpack__ and "
                 "__dlpack_device__, but ",
                 with_article(Py_TYPE(object)->tp_name), " has no ", py::cast<std::string>(name))
            .c_str());
    throw py::error_already_set();
  }
}

DLDevice device_of_producer(PyObject* object) {
  static PyObject* const name = interned("__dlpack_device__");
  const py::object answer = protocol_method(object, name)();
  const auto [type, index] = pair_arg(answer.ptr(), "what __dlpack_device__() gives");
  TORCH_CHECK_VALUE(std::in_range<int32_t>(type) && std::in_range<int32_t>(index),
                    "__dlpack_device__() of ", with_article(Py_TYPE(object)->tp_name), " gave (",
                    type, ", ", index, "), which no device can be");
  return {.device_type = static_cast<DLDeviceType>(type), .device_id = static_cast<int32_t>(index)};
}

// The keyword arguments of a call. There is no dictionary in between, which costs more than what
// most producers do.
class Keywords {
 public:
  void add(PyObject* name, py::object value) {
    names_.at(count_) = name;
    values_.at(count_++) = std::move(value);
  }

  [[nodiscard]] py::object call(py::handle function) const {
    const py::tuple names(count_);
    std::array<PyObject*, kMost> values{};
    for (size_t i = 0; i < count_; ++i) {
      PyTuple_SET_ITEM(names.ptr(), static_cast<Py_ssize_t>(i), Py_NewRef(names_.at(i)));
      values.at(i) = values_.at(i).ptr();
    }
    PyObject* answer =
        PyObject_Vectorcall(function.ptr(), values.data(), 0, count_ == 0 ? nullptr : names.ptr());
    if (answer == nullptr) {
      throw py::error_already_set();
    }
    return py::reinterpret_steal<py::object>(answer);
  }

 private:
  static constexpr size_t kMost = 3;

  std::array<PyObject*, kMost> names_{};  // interned
  std::array<py::object, kMost> values_;
  size_t count_ = 0;
};

// Asks a producer with its accelerator, if it is on one, current.
class Question {
 public:
  Question(py::object method, std::optional<at::Device> accelerator, CurrentDeviceGuard& guard)
      : method_(std::move(method)), accelerator_(accelerator), guard_(guard) {
    if (accelerator_.has_value()) {
      guard_.enter(*accelerator_);  // initialises PyTorch's side, or says why not
      stream_ = py::int_(stream_number(current_stream(*accelerator_)));
    }
  }

  // The producer's capsule: in its newest form if it knows how to be asked for that.
  [[nodiscard]] py::object capsule(Copy copy) const {
    static PyObject* const name = interned("copy");
    Keywords options = basic();
    add_newest(options);
    if (copy == Copy::kNever) {
      options.add(name, py::bool_(false));
    }
    try {
      return ask(options);
    } catch (py::error_already_set& error) {
      if (!error.matches(PyExc_TypeError)) {
        throw;
      }
    }
    return ask(basic());
  }

  // A capsule of the elements on the CPU; null, where `optional`, if the producer does not know or
  // cannot do such a move.
  [[nodiscard]] py::object capsule_on_host(bool optional) const {
    // The standard wants no stream with it: the answer is to be ready.
    static PyObject* const name = interned("dl_device");
    Keywords options;
    add_newest(options);
    options.add(name, py::make_tuple(static_cast<int>(kDLCPU), 0));
    try {
      return ask(options);
    } catch (py::error_already_set& error) {
      if (!optional || !(error.matches(PyExc_TypeError) || error.matches(PyExc_BufferError))) {
        throw;
      }
    }
    return {};
  }

 private:
  // What every producer understands.
  [[nodiscard]] Keywords basic() const {
    static PyObject* const name = interned("stream");
    Keywords options;
    if (stream_) {
      options.add(name, stream_);
    }
    return options;
  }

  static void add_newest(Keywords& options) {
    static PyObject* const name = interned("max_version");
    options.add(name, py::make_tuple(DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION));
  }

  [[nodiscard]] py::object ask(const Keywords& options) const {
    guard_.restore();  // an earlier answer may have changed what is current
    if (accelerator_.has_value()) {
      guard_.enter(*accelerator_);
    }
    return options.call(method_);
  }

  py::object method_;
  std::optional<at::Device> accelerator_;
  CurrentDeviceGuard& guard_;
  py::object stream_;  // null where there is none
};

// PyTorch's device for what a producer named; nothing where this PyTorch has none.
std::optional<at::Device> known_device(DLDevice device) {
  try {
    return device_of(device);
  } catch (const c10::ValueError&) {
    return std::nullopt;
  }
}

}  // namespace

ValuePtr import_by_protocol(PyObject* object, const Delivery& delivery, CurrentDeviceGuard& guard) {
  static PyObject* const name = interned("__dlpack__");
  py::object method = protocol_method(object, name);
  const DLDevice named = device_of_producer(object);
  guard.restore();
  const std::optional<at::Device> device = known_device(named);
  const bool moves = delivery.device.has_value() && delivery.device != device;
  TORCH_CHECK_VALUE(!moves || delivery.copy != Copy::kNever, "moving ",
                    with_article(Py_TYPE(object)->tp_name), " to ", *delivery.device,
                    " needs a copy: pass copy=None");
  const bool on_accelerator = device.has_value() && !device->is_cpu();
  const bool to_host = moves && delivery.device->is_cpu();
  const Question question(std::move(method), on_accelerator ? device : std::nullopt, guard);
  guard.restore();
  if (to_host && on_accelerator) {
    require_no_capture(current_stream(*device));
  }
  py::object capsule;
  if (to_host) {
    capsule = question.capsule_on_host(/*optional=*/device.has_value());
    if (on_accelerator && capsule && is_on_device(capsule.ptr())) {
      capsule = {};  // it was not moved, and for no stream of ours
    }
  }
  const bool moved = static_cast<bool>(capsule);
  if (!moved) {
    capsule = question.capsule(delivery.copy);
  }
  guard.restore();
  return take_capsule(capsule.ptr(), delivery, moved ? std::nullopt : std::optional(named));
}

}  // namespace ortdl::python
