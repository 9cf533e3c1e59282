#include <ortdl/session.h>
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
  return session->run(inputs);
}

}  // namespace

TORCH_LIBRARY(ortdl, library) {
  library.class_<Value>("OrtValue")
      .def("shape", [](const ValuePtr& self) { return self->sizes().vec(); })
      .def("element_type", [](const ValuePtr& self) -> int64_t { return self->type().onnx; })
      .def("data_type", [](const ValuePtr& self) { return self->type_string(); })
      .def("data_ptr", [](const ValuePtr& self) { return reinterpret_cast<int64_t>(self->data()); })
      .def("is_tensor", [](const ValuePtr& self) { return self->is_tensor(); })
      .def("has_value", [](const ValuePtr& self) { return self->has_value(); })
      .def("packed", [](const ValuePtr& self) { return self->packed(); });

  library.class_<Session>("InferenceSession")
      .def(torch::init([](std::string path) {
        return c10::make_intrusive<Session>(SessionConfig{.path = std::move(path)});
      }))
      .def("run", [](const SessionPtr& self,
                     const std::vector<at::Tensor>& inputs) { return self->run(inputs); })
      .def_pickle(
          [](const SessionPtr& self) { return self->config().state(); },
          [](SessionState state) {
            return c10::make_intrusive<Session>(SessionConfig::from_state(std::move(state)));
          });

  library.def(
      "to_ortvalue(Tensor self, bool? copy=False) -> __torch__.torch.classes.ortdl.OrtValue");
  library.def("from_ortvalue(__torch__.torch.classes.ortdl.OrtValue value) -> Tensor");
  library.def(
      "run(__torch__.torch.classes.ortdl.InferenceSession session, Tensor[] inputs) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(ortdl, CompositeExplicitAutograd, library) {
  library.impl("to_ortvalue", to_ortvalue);
  library.impl("from_ortvalue", from_ortvalue);
  library.impl("run", run);
}

}  // namespace ortdl
