// An op with the signature of torch.ops.ortdl.run that does nothing: what PyTorch asks for a call.

#include <ATen/ATen.h>
#include <torch/custom_class.h>
#include <torch/library.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace {

// Stands where the session stands: an object of a class that PyTorch does not know.
class Answer final : public torch::CustomClassHolder {
 public:
  Answer(std::vector<at::Tensor> outputs, std::string shapes)
      : outputs_(std::move(outputs)), shapes_(std::move(shapes)) {}

  [[nodiscard]] const std::vector<at::Tensor>& outputs() const noexcept { return outputs_; }
  [[nodiscard]] const std::string& shapes() const noexcept { return shapes_; }

 private:
  std::vector<at::Tensor> outputs_;
  std::string shapes_;
};

using AnswerPtr = c10::intrusive_ptr<Answer>;
using State = std::tuple<std::vector<at::Tensor>, std::string>;

std::vector<at::Tensor> run(const AnswerPtr& answer, at::TensorList /*inputs*/) {
  return answer->outputs();
}

// As a session's: the one string that torch.compile compares before each call.
std::tuple<std::tuple<std::string, std::string>> flatten(const AnswerPtr& answer) {
  return {{"shapes", answer->shapes()}};
}

}  // namespace

TORCH_LIBRARY(ortdl_floor, library) {
  library.class_<Answer>("Answer")
      .def(torch::init<std::vector<at::Tensor>, std::string>())
      .def("__obj_flatten__", flatten)
      .def("tracing_mode", [](const AnswerPtr& /*self*/) { return std::string("fake"); })
      .def("__len__", [](const AnswerPtr& /*self*/) -> int64_t { return 0; })
      .def("__eq__",
           [](const AnswerPtr& self, const AnswerPtr& other) -> bool { return self == other; })
      // inductor makes the key of its cache by pickling.
      .def_pickle([](const AnswerPtr& self) { return State(self->outputs(), self->shapes()); },
                  [](State state) {
                    auto& [outputs, shapes] = state;
                    return c10::make_intrusive<Answer>(std::move(outputs), std::move(shapes));
                  });
  library.def(
      "run(__torch__.torch.classes.ortdl_floor.Answer answer, Tensor[] inputs) -> Tensor[]");
}

TORCH_LIBRARY_IMPL(ortdl_floor, CompositeExplicitAutograd, library) { library.impl("run", run); }
