// The input is a model that ONNX Runtime loads, or not. What it loads is described, saved, loaded
// again, and run if it consists of operators that take no time.

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>
#include <ortdl/model_proto.h>
#include <ortdl/saved_session.h>

#include <algorithm>
#include <array>
#include <set>

#include "folder.h"
#include "message.h"
#include "shapes_check.h"
#include "target.h"

namespace ortdl::fuzz {
namespace {

struct Choices {
  int optimization;
  bool from_file;
  bool by_reference;
  bool initialized;

  static Choices of(uint8_t byte) {
    return {.optimization = std::array{0, 1, 2, 99}.at(byte % 4),
            .from_file = (byte & 4) != 0,
            .by_reference = (byte & 12) == 12,
            .initialized = (byte & 48) == 48};
  }
};

at::Tensor tensor_of(std::string_view text) {
  at::Tensor bytes = at::empty({static_cast<int64_t>(text.size())}, at::kByte);
  std::ranges::copy(text, static_cast<char*>(bytes.mutable_data_ptr()));
  return bytes;
}

// Zeros for the first initializer, if there is one that is small.
std::vector<NamedValue> initializers_of(std::string_view model) {
  ModelProto proto;
  if (!accepts([&] { proto = read_model_proto(std::as_bytes(std::span(model))); })) {
    return {};
  }
  for (const Initializer& known : proto.initializers) {
    const auto is_small = [](int64_t size) { return size >= 0 && size < 100; };
    for (const ElementType& type : element_types()) {
      if (type.onnx == known.data_type && type.scalar != at::ScalarType::Undefined &&
          type.per_scalar() == 1 && known.dims.size() < 3 &&
          std::ranges::all_of(known.dims, is_small)) {
        return {{known.name, Value::from_tensor(at::zeros(known.dims, type.scalar))}};
      }
    }
  }
  return {};
}

SessionConfig config_of(const Choices& choices, std::string_view model, const Folder& folder) {
  SessionConfig config;
  config.properties.insert("intra_op_num_threads", "1");
  config.properties.insert("log_severity_level", "4");
  config.properties.insert("graph_optimization_level", std::to_string(choices.optimization));
  if (choices.from_file) {
    config.path = folder.write("model.onnx", model);
    config.embed = !choices.by_reference;
  } else {
    config.model = tensor_of(model);
  }
  if (choices.initialized) {
    config.initializers = initializers_of(model);
  }
  return config;
}

// Operators that do little with each element, whatever the attributes are.
bool is_quick(const std::string& type) {
  static const std::set<std::string> quick{"Add",      "And", "Cast",     "Greater",
                                           "Identity", "Mul", "Neg",      "Relu",
                                           "Sub",      "Not", "Optional", "SequenceConstruct"};
  return quick.contains(type);
}

bool is_quick_model(std::string_view model) {
  for (const Field& part : fields_of(model).value_or(Fields())) {
    const Fields graph = part.number == 7 ? fields_of(part.bytes).value_or(Fields()) : Fields();
    for (const Field& node : graph) {
      for (const Field& field :
           node.number == 1 ? fields_of(node.bytes).value_or(Fields()) : Fields()) {
        if (field.number == 4 && !is_quick(field.bytes)) {
          return false;
        }
      }
    }
    if (part.number == 25) {
      return false;  // functions have nodes of their own
    }
  }
  return true;
}

std::optional<std::vector<at::Tensor>> inputs_of(const Session& session) {
  std::vector<at::Tensor> inputs;
  for (const Node& node : session.inputs()) {
    if (node.element == nullptr || node.element->scalar == at::ScalarType::Undefined ||
        node.element->per_scalar() != 1 || node.shape.size() > 4) {
      return std::nullopt;
    }
    std::vector<int64_t> sizes;
    for (const int64_t size : node.shape) {
      sizes.push_back(size < 0 ? 2 : size);
      if (size > 30) {
        return std::nullopt;
      }
    }
    inputs.push_back(at::zeros(sizes, node.element->scalar));
  }
  return inputs;
}

void check_run(const Session& session) {
  const std::optional<std::vector<at::Tensor>> inputs = inputs_of(session);
  std::vector<at::Tensor> made;
  if (!inputs.has_value() || !succeeds([&] { made = session.run(*inputs); })) {
    return;
  }
  require(made.size() == session.outputs().size(), "there is a tensor for each output");
  for (size_t i = 0; i < made.size(); ++i) {
    const Node& node = session.outputs()[i];
    require(node.element != nullptr && made[i].scalar_type() == node.element->scalar,
            "an output has the type that the session says");
    for (const at::Tensor& input : *inputs) {
      require(made[i].numel() == 0 || made[i].const_data_ptr() != input.const_data_ptr(),
              "no output is memory of an input");
    }
    static_cast<void>(made[i].clone());  // every byte is read
  }
}

void check_description(const Session& session) {
  check_shapes(session.inputs(), session.outputs());
  require(session.shapes().json() == GraphShapes(session.inputs(), session.outputs()).json(),
          "a session's shapes are those of its inputs and outputs");
  require(!session.providers().empty(), "a session has a provider");
  for (const Node& node : session.inputs()) {
    require(session.inputs()[session.input_index(node.name)].name == node.name,
            "an input has its name");
    require(node.shape.size() == node.symbols.size(), "each dimension has a name or none");
  }
  for (size_t i = 0; i < session.outputs().size(); ++i) {
    static_cast<void>(session.writes_in_place(i));
    static_cast<void>(session.input_of(i));
  }
  require(!describe(session.inputs()).empty() && !describe(session.outputs()).empty(),
          "inputs and outputs are described");
}

void check_saved(const SessionPtr& session) {
  SessionState state;
  if (!succeeds([&] { state = session->config().state(); })) {
    return;
  }
  SessionPtr again;
  require(succeeds([&] { again = load_session(std::move(state)); }), "what was saved loads again");
  require(again != session && again->shapes().json() == session->shapes().json(),
          "what was saved is the same model");
}

void run_session(Input input) {
  const Choices choices = Choices::of(input.empty() ? 0 : input.front());
  const Input bytes = input.subspan(std::min<size_t>(input.size(), 1));
  const std::string_view model(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  {
    static const Folder folder;
    const SessionConfig config = config_of(choices, model, folder);
    SessionPtr session;
    if (succeeds([&] { session = c10::make_intrusive<Session>(config); })) {
      check_description(*session);
      check_saved(session);
      if (is_quick_model(model)) {
        check_run(*session);
      }
    }
  }
  check_nothing_lives();
}

}  // namespace

const Target kSession{.name = "session",
                      .begin = [] { static_cast<void>(environment()); },
                      .run = run_session,
                      .is_message = true};

}  // namespace ortdl::fuzz
