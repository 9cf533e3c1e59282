#include <ortdl/session.h>
#include <python/door.h>
#include <python/guarded.h>
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

SessionConfig config_of(std::string_view source, bool is_path, const Options& properties,
                        const Providers& providers) {
  SessionConfig config;
  if (is_path) {
    config.path = source;
  } else {
    config.model = at::empty({static_cast<int64_t>(source.size())}, at::kByte);
    std::ranges::copy(source, config.model.mutable_data_ptr<uint8_t>());
  }
  config.properties = to_dict(properties);
  for (const auto& [name, options] : providers) {
    config.providers.push_back({name, to_dict(options)});
  }
  return config;
}

// Loading a model may take long.
template <typename Make>
PyObject* script_object_of(Make&& make) {
  SessionPtr session;
  {
    const py::gil_scoped_release released;
    session = make();
  }
  return torch::jit::toPyObject(c10::IValue(std::move(session))).release().ptr();
}

PyObject* make_session(PyObject* /*module*/, PyObject* args) {
  return guarded([&] {
    const auto [source, is_path, properties, providers, move_inputs] =
        py::cast<std::tuple<py::bytes, bool, Options, Providers, bool>>(py::handle(args));
    SessionOptionsHandle options = take_captured_options();
    SessionConfig config = config_of(std::string_view(source), is_path, properties, providers);
    const bool moves = move_inputs;  // a lambda captures no structured binding
    return script_object_of([&] {
      config.entries = config_entries(options.get());
      if (moves) {
        config.entries.insert_or_assign(SessionConfig::kMoveInputs, "1");
      }
      return c10::make_intrusive<Session>(config, options);
    });
  });
}

SessionState parse_state(PyObject* state) {
  try {
    return torch::jit::toIValue(py::handle(state), c10::getTypePtr<SessionState>())
        .to<SessionState>();
  } catch (const std::exception&) {
    // What was caught would print the whole model.
    PyErr_Clear();
    TORCH_CHECK_VALUE(false,
                      "the saved session is damaged: expected a tuple of version, model, options, "
                      "config entries and providers");
  }
}

// From the state that `__getstate__` of torch.classes.ortdl.InferenceSession gives.
PyObject* load_session(PyObject* /*module*/, PyObject* state) {
  return guarded([&] {
    SessionState saved = parse_state(state);
    return script_object_of(
        [&] { return c10::make_intrusive<Session>(SessionConfig::from_state(std::move(saved))); });
  });
}

std::array functions{
    PyMethodDef{"make_session", make_session, METH_VARARGS, nullptr},
    PyMethodDef{"load_session", load_session, METH_O, nullptr},
    PyMethodDef{},
};

}  // namespace

PyMethodDef* session_functions() noexcept { return functions.data(); }

}  // namespace ortdl::python
