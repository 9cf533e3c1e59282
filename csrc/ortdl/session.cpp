#include <ortdl/session.h>

#include <algorithm>
#include <numeric>

namespace ortdl {
namespace {

template <typename T>
using Small = c10::SmallVector<T, 8>;

SessionHandle load(const SessionConfig& config, const OrtSessionOptions* options) {
  OrtSession* session = nullptr;
  check_status(config.model.defined()
                   ? api().CreateSessionFromArray(environment(), config.model.const_data_ptr(),
                                                  config.model.nbytes(), options, &session)
                   : api().CreateSession(environment(), config.path.c_str(), options, &session));
  return SessionHandle(session);
}

SessionOptionsHandle complete_options(const SessionConfig& config) {
  SessionOptionsHandle options = config.make_options();
  config.append_providers(options.get());
  return options;
}

size_t index_of(const std::vector<Node>& nodes, std::string_view name, const char* what) {
  const auto found = std::ranges::find(nodes, name, &Node::name);
  TORCH_CHECK_VALUE(found != nodes.end(), "the model has no ", what, " named '", name, "'. Its ",
                    what, "s are: ", describe(nodes));
  return static_cast<size_t>(found - nodes.begin());
}

}  // namespace

Session::Session(const SessionConfig& config) : Session(config, complete_options(config)) {}

Session::Session(SessionConfig config, SessionOptionsHandle options)
    : counted_(std::in_place),
      config_(std::move(config)),
      handle_(load(config_, options.get())),
      inputs_(read_inputs(handle_.get())),
      outputs_(read_outputs(handle_.get())),
      shapes_(inputs_, outputs_),
      all_outputs_(outputs_.size()) {
  std::ranges::transform(inputs_, std::back_inserter(input_names_),
                         [](const Node& node) { return node.name.c_str(); });
  std::iota(all_outputs_.begin(), all_outputs_.end(), size_t{0});
}

void Session::release_resources() {
  counted_.reset();
  handle_.reset();
  config_ = {};
}

std::vector<at::Tensor> Session::run(at::TensorList inputs) const {
  TORCH_CHECK_VALUE(inputs.size() == inputs_.size(), "the model takes ", inputs_.size(),
                    " inputs, but ", inputs.size(), " were given. ", expected_inputs(inputs_));
  Feeds feeds(inputs_);
  for (size_t i = 0; i < inputs.size(); ++i) {
    feeds.set(i, inputs[i]);
  }
  return run(feeds, all_outputs_);
}

std::vector<at::Tensor> Session::run(const Feeds& feeds, at::ArrayRef<size_t> outputs) const {
  Small<const char*> names;
  for (const size_t index : outputs) {
    check_output(index);
    names.push_back(outputs_[index].name.c_str());
  }
  Small<::OrtValue*> raw(outputs.size(), nullptr);
  OrtStatus* status = api().Run(handle_.get(), nullptr, input_names_.data(), feeds.values(),
                                input_names_.size(), names.data(), names.size(), raw.data());
  Small<ValueHandle> owned(raw.begin(), raw.end());
  check_status(status);

  std::vector<at::Tensor> results;
  results.reserve(owned.size());
  for (size_t i = 0; i < owned.size(); ++i) {
    const auto value = c10::make_intrusive<Value>(std::move(owned[i]));
    // An output asked for twice is one piece of memory.
    const auto before = outputs.slice(0, i);
    const bool shared =
        feeds.overlaps(value->data()) || std::ranges::find(before, outputs[i]) != before.end();
    results.push_back(value->to_tensor(shared ? Copy::kAlways : Copy::kNever));
  }
  return results;
}

size_t Session::input_index(std::string_view name) const {
  return index_of(inputs_, name, "input");
}

size_t Session::output_index(std::string_view name) const {
  return index_of(outputs_, name, "output");
}

void Session::check_output(size_t index) const {
  const Node& node = outputs_[index];
  TORCH_CHECK_TYPE(node.element != nullptr && node.element->scalar != at::ScalarType::Undefined,
                   "the output '", node.name, "' is a ", node.type,
                   ", which PyTorch has no tensor for: ask for other outputs with "
                   "session.run([names], feeds), or run this model with onnxruntime. "
                   "The model's outputs are: ",
                   describe(outputs_));
}

}  // namespace ortdl
