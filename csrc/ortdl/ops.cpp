#include <ATen/core/LegacyTypeDispatch.h>
#include <ortdl/grad.h>
#include <ortdl/registered.h>
#include <ortdl/saved_bytes.h>
#include <ortdl/saved_session.h>
#include <ortdl/session.h>
#include <ortdl/tracing.h>
#include <ortdl/value.h>
#include <torch/library.h>

// Registration only: what TorchScript, torch.ops and torch.classes see.
namespace ortdl {
namespace {

ValuePtr to_ortvalue(const at::Tensor& self, std::optional<bool> copy) {
  return Value::from_tensor(self, copy_policy(copy));
}

at::Tensor from_ortvalue(const ValuePtr& value) { return value->to_tensor(); }

std::vector<at::Tensor> run(const SessionPtr& session, at::TensorList inputs) {
  std::vector<at::Tensor> outputs = session->run(inputs);
  session->shapes().check(inputs, outputs);
  return outputs;
}

// Each op once more, below autograd, which includes torch.func's transforms: they hand it tensors
// that only here still say that they need a gradient.
ValuePtr to_ortvalue_autograd(const at::Tensor& self, std::optional<bool> copy) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ortdl::to_ortvalue", "")
                             .typed<decltype(to_ortvalue)>();
  TORCH_CHECK_BUFFER(!needs_grad(self), "the tensor requires grad, ", kGradRemedy);
  const at::AutoDispatchBelowAutograd below;
  return op.call(self, copy);
}

std::vector<at::Tensor> run_autograd(const SessionPtr& session, at::TensorList inputs) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ortdl::run", "").typed<decltype(run)>();
  for (size_t i = 0; i < inputs.size(); ++i) {
    TORCH_CHECK_BUFFER(!needs_grad(inputs[i]), "the tensor given for the input number ", i,
                       " requires grad, ", kGradRemedy, ". ", expected_inputs(session->inputs()));
  }
  const at::AutoDispatchBelowAutograd below;
  return op.call(session, inputs);
}

// What torch.compile builds its fake session from, and compares before each call: one string.
std::tuple<std::tuple<std::string, std::string>> flatten(const SessionPtr& session) {
  return {{"shapes", session->shapes().json()}};
}

// torch.compile needs a fake session, since a real one cannot be among a graph's inputs;
// torch.export in its strict mode leaves a fake one behind in the program that it makes.
std::string tracing_mode(const SessionPtr& /*self*/) { return is_exporting() ? "real" : "fake"; }

// torch.library.opcheck asks every argument for these two.
template <typename Class>
int64_t holds_no_tensors(const c10::intrusive_ptr<Class>& /*self*/) {
  return 0;
}

template <typename Class>
bool is_same_object(const c10::intrusive_ptr<Class>& self, const c10::intrusive_ptr<Class>& other) {
  return self == other;
}

// PyTorch derives no schema from a future's C++ type, which does not say of what.
c10::FunctionSchema run_async_schema() {
  const auto tensors = c10::ListType::ofTensors();
  return {"run_async",
          "",
          {c10::Argument("self", c10::getCustomClassType<SessionPtr>()),
           c10::Argument("inputs", tensors)},
          {c10::Argument("", c10::FutureType::create(tensors))}};
}

void run_async(torch::jit::Stack& stack) {
  const std::vector<at::Tensor> inputs = torch::jit::pop(stack).toTensorVector();
  const auto session = torch::jit::pop(stack).toCustomClass<Session>();
  torch::jit::push(stack, session->run_async(inputs));
}

c10::FunctionSchema set_state_schema() {
  return {"__setstate__",
          "",
          {c10::Argument("self", c10::getCustomClassType<SessionPtr>()),
           c10::Argument("state", c10::getTypePtr<SessionState>())},
          {c10::Argument("", c10::NoneType::get())}};
}

// A dict gives its values as what they are said to be when they are read.
void require_text(const StringDict& dict) {
  for (const auto& entry : dict) {
    static_cast<void>(entry.key());
    static_cast<void>(entry.value());
  }
}

SessionState parse_state(c10::IValue state) {
  try {
    auto parsed = std::move(state).to<SessionState>();
    const auto& [version, files, properties, entries, providers, initializers] = parsed;
    require_text(properties);
    require_text(entries);
    for (const auto& [name, options] : providers) {
      require_text(options);
    }
    return parsed;
  } catch (const c10::Error&) {
    // An archive may say that it holds values of other types than it does.
    TORCH_CHECK_VALUE(false, detail::kDamaged, "values in it are of other types than are saved");
  }
}

void set_state(torch::jit::Stack& stack) {
  SessionState state = parse_state(torch::jit::pop(stack));
  const auto self = torch::jit::pop(stack).toObject();
  self->setSlot(0, c10::IValue::make_capsule(load_session(std::move(state))));
  torch::jit::push(stack, c10::IValue());
}

void define(torch::Library& library) {
  library.class_<Value>("OrtValue")
      .def("shape", [](const ValuePtr& self) { return self->sizes().vec(); })
      .def("element_type", [](const ValuePtr& self) -> int64_t { return self->type().onnx; })
      .def("data_type", [](const ValuePtr& self) { return self->type_string(); })
      .def("data_ptr", [](const ValuePtr& self) { return reinterpret_cast<int64_t>(self->data()); })
      .def("is_tensor", [](const ValuePtr& self) { return self->is_tensor(); })
      .def("has_value", [](const ValuePtr& self) { return self->has_value(); })
      .def("packed", [](const ValuePtr& self) { return self->packed(); })
      .def("__len__", holds_no_tensors<Value>)
      .def("__eq__", is_same_object<Value>);

  library.class_<Session>("InferenceSession")
      .def(torch::init([](std::string path) {
        return c10::make_intrusive<Session>(SessionConfig{.path = std::move(path)});
      }))
      .def("run", [](const SessionPtr& self,
                     const std::vector<at::Tensor>& inputs) { return self->run(inputs); })
      ._def_unboxed("run_async", run_async, run_async_schema())
      .def("__obj_flatten__", flatten)
      .def("tracing_mode", tracing_mode)
      .def("__len__", holds_no_tensors<Session>)
      .def("__eq__", is_same_object<Session>)
      .def("__getstate__", [](const SessionPtr& self) { return save_session(self); })
      ._def_unboxed("__setstate__", set_state, set_state_schema());

  for (const char* schema :
       {"to_ortvalue(Tensor self, bool? copy=False) -> __torch__.torch.classes.ortdl.OrtValue",
        "from_ortvalue(__torch__.torch.classes.ortdl.OrtValue value) -> Tensor",
        "run(__torch__.torch.classes.ortdl.InferenceSession session, Tensor[] inputs) -> "
        "Tensor[]"}) {
    // By the schema alone TorchScript would merge two runs of a model that draws random numbers,
    // and read a tensor before it is written to through a value that shares its memory.
    library.def(torch::schema(schema, c10::AliasAnalysisKind::CONSERVATIVE));
  }
}

void implement(torch::Library& library) {
  library.impl("to_ortvalue", to_ortvalue);
  library.impl("from_ortvalue", from_ortvalue);
  library.impl("run", run);
}

void implement_autograd(torch::Library& library) {
  library.impl("to_ortvalue", to_ortvalue_autograd);
  library.impl("run", run_autograd);
}

// A model's types are its own, and a pending negation is resolved where the input is read. Traced
// ops do not get as far as PyTorch's own fallbacks for these.
constexpr c10::DispatchKeySet kPassed =
    c10::autocast_dispatch_keyset | c10::DispatchKeySet(c10::DispatchKey::Negative);

void pass_on(torch::Library& library) {
  library.impl("run", torch::CppFunction::makeFallthrough());
}

// What TORCH_LIBRARY does, but for what PyTorch says to a second copy of this library in the
// process: while libraries are loaded, an exception would end it.
class Registration {
 public:
  Registration() noexcept {
    try {
      add(torch::Library::DEF, std::nullopt, define);
      add(torch::Library::IMPL, c10::DispatchKey::CompositeExplicitAutograd, implement);
      add(torch::Library::IMPL, c10::DispatchKey::Autograd, implement_autograd);
      for (const c10::DispatchKey key : kPassed) {
        add(torch::Library::IMPL, key, pass_on);
      }
    } catch (...) {
      libraries_.clear();
      detail::registration_failed = true;
    }
  }

 private:
  void add(torch::Library::Kind kind, std::optional<c10::DispatchKey> key,
           void (*fill)(torch::Library&)) {
    fill(libraries_.emplace_back(kind, "ortdl", key, __FILE__, static_cast<uint32_t>(__LINE__)));
  }

  std::vector<torch::Library> libraries_;
};

const Registration registration;

}  // namespace

}  // namespace ortdl
