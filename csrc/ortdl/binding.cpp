#include <ortdl/apart.h>
#include <ortdl/binding.h>
#include <ortdl/shareable.h>
#include <ortdl/targets.h>

#include <algorithm>

namespace ortdl {
namespace {

ValuePtr share(const Node& node, const char* what, const at::Tensor& tensor) {
  try {
    require_shareable(tensor);
    return Value::from_tensor(tensor);
  } catch (c10::Error& error) {
    error.add_context(c10::str("The tensor was to be bound to the ", what, " '", node.name, "'."));
    throw;
  }
}

}  // namespace

// One thread's use of a binding.
class Binding::Use {
 public:
  explicit Use(const Binding& binding) : used_(binding.used_) {
    TORCH_CHECK(!used_.exchange(true),
                "the binding is in use by another thread: make one for each thread with "
                "session.io_binding()");
  }
  Use(const Use&) = delete;
  Use(Use&&) = delete;
  Use& operator=(const Use&) = delete;
  Use& operator=(Use&&) = delete;
  ~Use() { used_ = false; }

 private:
  std::atomic<bool>& used_;
};

Binding::Binding(SessionPtr session)
    : session_(std::move(session)),
      inputs_(session_->inputs()),
      handle_(session_->make_binding()) {}

void Binding::bind_input(size_t index, const at::Tensor& tensor) {
  bind_input(index, share(session_->inputs()[index], "input", tensor));
}

void Binding::bind_input(size_t index, ValuePtr value) {
  const Use use(*this);
  TORCH_CHECK_VALUE(value->has_value(), "an OrtValue with nothing in it was given for the input '",
                    session_->inputs()[index].name,
                    "', and such an input cannot be bound: call the session with None for it");
  Feeds checked(session_->inputs());
  checked.set(index, value);
  require_apart(checked, std::nullopt, nullptr);
  if (handle_ != nullptr) {
    check_status(
        api().BindInput(handle_.get(), session_->inputs()[index].name.c_str(), value->handle()));
  }
  inputs_.reset(index);
  inputs_.set(index, std::move(value));
}

void Binding::bind_output(size_t index, const at::Tensor& tensor) {
  const Node& node = session_->outputs()[index];
  Targets::require_writable(node, tensor);
  bind_output(index, share(node, "output", tensor));
}

void Binding::bind_output(size_t index, ValuePtr value) {
  const Use use(*this);
  require_apart(inputs_, index, value);
  bind(index, std::move(value));
}

void Binding::bind_output(size_t index) {
  const Use use(*this);
  bind(index, nullptr);
}

void Binding::bind(size_t index, ValuePtr value) {
  const Node& node = session_->outputs()[index];
  if (handle_ != nullptr) {
    // What ONNX Runtime does not write into the value, `run` does.
    const bool written = value.defined() && session_->writes_in_place(index);
    check_status(written ? api().BindOutput(handle_.get(), node.name.c_str(), value->handle())
                         : api().BindOutputToDevice(handle_.get(), node.name.c_str(),
                                                    memory_info(at::kCPU)));
  }
  const auto known = std::ranges::find(indices_, index);
  if (known != indices_.end()) {
    values_[static_cast<size_t>(known - indices_.begin())] = std::move(value);
    return;
  }
  indices_.push_back(index);
  values_.push_back(std::move(value));
}

void Binding::clear_inputs() {
  const Use use(*this);
  if (handle_ != nullptr) {
    api().ClearBoundInputs(handle_.get());
  }
  inputs_ = Feeds(session_->inputs());
}

void Binding::clear_outputs() {
  const Use use(*this);
  if (handle_ != nullptr) {
    api().ClearBoundOutputs(handle_.get());
  }
  indices_.clear();
  values_.clear();
}

void Binding::run(OrtRunOptions* options) {
  const Use use(*this);
  inputs_.require_all();
  TORCH_CHECK_VALUE(!indices_.empty(),
                    "no output is bound. The model's outputs are: ", describe(session_->outputs()));
  const Written written(values_);
  Session::Values made;
  if (handle_ != nullptr) {
    renew_sequences();
    session_->run_bound(handle_.get(), options);
    const bool all_in_place = std::ranges::all_of(
        indices_, [this](size_t index) { return session_->writes_in_place(index); });
    if (!all_in_place || std::ranges::find(values_, ValuePtr()) != values_.end()) {
      for (ValueHandle& output : bound_outputs(handle_.get())) {
        made.push_back(c10::make_intrusive<Value>(std::move(output)));
      }
    }
  } else {
    made = session_->run_values(inputs_, indices_, options, {values_.begin(), values_.end()});
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const std::optional<size_t> input = session_->input_of(indices_[i]);
    if (!values_[i].defined()) {
      values_[i] = input.has_value() ? inputs_.value(*input)->clone() : made[i];
    } else if (!session_->writes_in_place(indices_[i])) {
      values_[i]->update(input.has_value() ? *inputs_.value(*input) : *made[i]);
    }
  }
}

void Binding::renew_sequences() {
  for (const size_t index : indices_) {
    if (session_->outputs()[index].element == nullptr) {
      bind(index, nullptr);  // ONNX Runtime would append to the last run's
    }
  }
}

std::vector<ValuePtr> Binding::outputs() const {
  const Use use(*this);
  const auto missing = std::ranges::find(values_, ValuePtr());
  TORCH_CHECK(missing == values_.end(),
              "an output that is left to ONNX Runtime is not there before the first run");
  return values_;
}

void Binding::require_apart(const Feeds& inputs, std::optional<size_t> replaced,
                            const ValuePtr& by) const {
  Targets targets(session_->outputs());
  if (replaced.has_value()) {
    targets.set(*replaced, by);
    ortdl::require_apart(*by, session_->outputs()[*replaced], session_->config().initializers);
  }
  for (size_t i = 0; i < values_.size(); ++i) {
    const bool flat = session_->outputs()[indices_[i]].element != nullptr;
    if (flat && values_[i].defined() && indices_[i] != replaced) {
      targets.set(indices_[i], values_[i]);
    }
  }
  targets.require_apart(inputs);
}

}  // namespace ortdl
