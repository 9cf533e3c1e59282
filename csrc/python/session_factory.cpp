#include <ortdl/real_ops.h>
#include <ortdl/saved_session.h>
#include <ortdl/shareable.h>
#include <python/args.h>
#include <python/door.h>
#include <python/gil.h>
#include <python/guarded.h>
#include <python/ortvalue.h>
#include <python/session_factory.h>
#include <torch/csrc/jit/python/pybind_utils.h>

#include <algorithm>
#include <array>
#include <map>

namespace ortdl::python {
namespace {

using Options = std::map<std::string, std::string>;
using Providers = std::vector<std::pair<std::string, Options>>;

StringDict to_dict(const Options& options) {
  StringDict dict;
  for (const auto& [key, value] : options) {
    dict.insert(key, value);
  }
  return dict;
}

at::Tensor to_tensor(std::string_view bytes) {
  const RealOps real;
  at::Tensor tensor = at::empty({static_cast<int64_t>(bytes.size())}, at::kByte);
  std::ranges::copy(bytes, tensor.mutable_data_ptr<uint8_t>());
  return tensor;
}

SessionConfig config_of(std::string_view source, bool is_path, const Options& properties,
                        const Providers& providers) {
  SessionConfig config;
  if (is_path) {
    config.path = source;
  } else {
    config.model = to_tensor(source);
  }
  config.properties = to_dict(properties);
  for (const auto& [name, options] : providers) {
    config.providers.push_back({name, to_dict(options)});
  }
  return config;
}

ValuePtr initializer_value(PyObject* object) {
  if (is_tensor(object)) {
    const at::Tensor& tensor = THPVariable_Unpack(object);
    require_shareable(tensor);
    return Value::from_tensor(tensor);
  }
  ValuePtr storage;
  return unwrap_value(object, storage);
}

std::vector<NamedValue> named_values(const py::dict& initializers) {
  std::vector<NamedValue> values;
  for (const auto& [key, object] : initializers) {
    const std::string name(name_arg(key.ptr(), "an initializer's name"));
    try {
      values.push_back({name, initializer_value(object.ptr())});
    } catch (c10::Error& error) {
      error.add_context("This was given for the initializer '" + name +
                        "', which must be a contiguous torch.Tensor on the CPU, or an OrtValue");
      throw;
    }
  }
  return values;
}

// Loading a model may take long.
template <typename Make>
PyObject* script_object_of(Make&& make) {
  SessionPtr session;
  {
    const WithoutGil released;
    session = make();
  }
  return torch::jit::toPyObject(c10::IValue(std::move(session))).release().ptr();
}

PyObject* make_session(PyObject* /*module*/, PyObject* args) {
  return guarded([&] {
    const auto [source, is_path, properties, providers, move_inputs, embed, initializers] =
        py::cast<std::tuple<py::bytes, bool, Options, Providers, bool, bool, py::dict>>(
            py::handle(args));
    SessionOptionsHandle options = take_captured_options();
    SessionConfig config = config_of(std::string_view(source), is_path, properties, providers);
    config.embed = embed;
    config.initializers = named_values(initializers);
    const bool moves = move_inputs;  // a lambda captures no structured binding
    return script_object_of([&] {
      stop_spinning_after_runs(options.get());
      config.entries = config_entries(options.get());
      if (moves) {
        config.entries.insert_or_assign(SessionConfig::kMoveInputs, "1");
      }
      return c10::make_intrusive<Session>(config, options);
    });
  });
}

// The bytes of a Python object, as long as this lives.
class BufferView {
 public:
  explicit BufferView(PyObject* object) {
    if (PyObject_GetBuffer(object, &view_, PyBUF_SIMPLE) != 0) {
      throw python_error();
    }
  }
  BufferView(const BufferView&) = delete;
  BufferView(BufferView&&) = delete;
  BufferView& operator=(const BufferView&) = delete;
  BufferView& operator=(BufferView&&) = delete;
  ~BufferView() { PyBuffer_Release(&view_); }

  [[nodiscard]] std::string_view bytes() const noexcept {
    return {static_cast<const char*>(view_.buf), static_cast<size_t>(view_.len)};
  }

 private:
  Py_buffer view_{};
};

std::vector<SavedFile> parse_files(const py::list& files) {
  std::vector<SavedFile> parsed;
  // What is done with an item may change the list.
  const py::tuple held(files);
  for (const py::handle file : held) {
    auto [name, digest, bytes] = py::cast<std::tuple<std::string, std::string, py::object>>(file);
    const BufferView view(bytes.ptr());
    const WithoutGil released;  // there may be many
    parsed.emplace_back(std::move(name), std::move(digest), to_tensor(view.bytes()));
  }
  return parsed;
}

std::vector<SavedInitializer> parse_initializers(const py::list& initializers) {
  using Parts = std::tuple<std::string, int64_t, std::vector<int64_t>, py::object>;
  std::vector<SavedInitializer> parsed;
  const py::tuple held(initializers);
  for (const py::handle initializer : held) {
    auto [name, onnx, sizes, bytes] = py::cast<Parts>(initializer);
    const BufferView view(bytes.ptr());
    const WithoutGil released;  // there may be many
    parsed.emplace_back(std::move(name), onnx, std::move(sizes), to_tensor(view.bytes()));
  }
  return parsed;
}

SessionState parse_state(PyObject* state) {
  const bool has_version = PyTuple_Check(state) && PyTuple_GET_SIZE(state) > 0 &&
                           PyLong_CheckExact(PyTuple_GET_ITEM(state, 0));
  if (has_version) {
    // Another version's form may be another.
    SessionConfig::require_version(int_arg(PyTuple_GET_ITEM(state, 0), "the saved version"));
  }
  try {
    const auto [version, files, properties, entries, providers, initializers] =
        py::cast<std::tuple<int64_t, py::list, Options, Options, Providers, py::list>>(
            py::handle(state));
    std::vector<std::tuple<std::string, StringDict>> saved;
    for (const auto& [name, options] : providers) {
      saved.emplace_back(name, to_dict(options));
    }
    return {version,          parse_files(files), to_dict(properties),
            to_dict(entries), std::move(saved),   parse_initializers(initializers)};
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception&) {
    PyErr_Clear();
    TORCH_CHECK_VALUE(false,
                      "the saved session is damaged: expected a tuple of version, files, options, "
                      "config entries, providers and initializers");
  }
}

// From what `InferenceSession.__reduce_ex__` gives.
PyObject* load_session(PyObject* /*module*/, PyObject* state) {
  return guarded([&] {
    SessionState saved = parse_state(state);
    return script_object_of([&] { return ortdl::load_session(std::move(saved)); });
  });
}

std::array factories{
    PyMethodDef{"make_session", make_session, METH_VARARGS, nullptr},
    PyMethodDef{"load_session", load_session, METH_O, nullptr},
    PyMethodDef{},
};

}  // namespace

PyMethodDef* session_functions() noexcept { return factories.data(); }

}  // namespace ortdl::python
