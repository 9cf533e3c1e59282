// The bare C calls of ONNX Runtime, timed in C++: what no route through Python can undercut.

#include <ATen/ATen.h>
#include <ortdl/runtime.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using ortdl::api;
using ortdl::check_status;
using ortdl::ValueHandle;
using Tensors = std::map<std::string, at::Tensor>;
using MemoryInfoHandle =
    std::unique_ptr<OrtMemoryInfo, ortdl::Releaser<&OrtApi::ReleaseMemoryInfo>>;
using BindingHandle = std::unique_ptr<OrtIoBinding, ortdl::Releaser<&OrtApi::ReleaseIoBinding>>;
using RunOptionsHandle =
    std::unique_ptr<OrtRunOptions, ortdl::Releaser<&OrtApi::ReleaseRunOptions>>;

// Nanoseconds that `count` calls took together.
template <typename Call>
double time_calls(int64_t count, Call&& call) {
  const auto start = std::chrono::steady_clock::now();
  for (int64_t i = 0; i < count; ++i) {
    call();
  }
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count();
}

MemoryInfoHandle cpu_memory() {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateCpuMemoryInfo(OrtDeviceAllocator, OrtMemTypeDefault, &info));
  return MemoryInfoHandle(info);
}

// The least that makes a value own memory: an object that ONNX Runtime calls once, at the end.
struct Owner final : OrtAllocator {
  Owner(c10::Storage kept, const OrtMemoryInfo* where)
      : OrtAllocator{}, storage(std::move(kept)), info(where) {
    version = ortdl::kOldestRuntime;
    Free = [](OrtAllocator* self, void* /*data*/) { delete static_cast<Owner*>(self); };
    Info = [](const OrtAllocator* self) { return static_cast<const Owner*>(self)->info; };
  }

  c10::Storage storage;
  const OrtMemoryInfo* info;
};

ValueHandle owning_value(const OrtApi& ort, const at::Tensor& tensor, const OrtMemoryInfo* info) {
  auto owner = std::make_unique<Owner>(tensor.storage(), info);
  OrtValue* value = nullptr;
  check_status(ort.CreateTensorWithDataAndDeleterAsOrtValue(
      owner.get(), tensor.data_ptr(), tensor.nbytes(), tensor.sizes().data(), tensor.sizes().size(),
      ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  static_cast<void>(owner.release());
  return ValueHandle(value);
}

// A value that owns the storage of `tensor` (float32) is made and released.
double time_to_value(const at::Tensor& tensor, int64_t count) {
  const OrtApi& ort = api();
  const MemoryInfoHandle info = cpu_memory();
  return time_calls(count, [&] { owning_value(ort, tensor, info.get()); });
}

at::Tensor read_value(const OrtApi& ort, OrtValue* value) {
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  check_status(ort.GetTensorTypeAndShape(value, &raw));
  const ortdl::ShapeInfoHandle shape(raw);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(ort.GetTensorElementType(raw, &type));
  TORCH_CHECK(type == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, "the floor reads float32 only");
  size_t rank = 0;
  check_status(ort.GetDimensionsCount(raw, &rank));
  std::array<int64_t, 64> sizes;
  check_status(ort.GetDimensions(raw, sizes.data(), rank));
  const OrtMemoryInfo* info = nullptr;
  check_status(ort.GetTensorMemoryInfo(value, &info));
  OrtMemoryInfoDeviceType device = OrtMemoryInfoDeviceType_GPU;
  ort.MemoryInfoGetDeviceType(info, &device);
  TORCH_CHECK(device == OrtMemoryInfoDeviceType_CPU, "the floor reads CPU memory only");
  void* data = nullptr;
  check_status(ort.GetTensorMutableData(value, &data));
  return at::from_blob(data, at::IntArrayRef(sizes.data(), rank), at::kFloat);
}

// A value is read back, and becomes a Python tensor that owns nothing.
double time_from_value(const at::Tensor& tensor, int64_t count) {
  const OrtApi& ort = api();
  const MemoryInfoHandle info = cpu_memory();
  const ValueHandle value = owning_value(ort, tensor, info.get());
  return time_calls(count, [&] { Py_DECREF(THPVariable_Wrap(read_value(ort, value.get()))); });
}

// A session with inputs and outputs of float32.
class BareSession {
 public:
  BareSession(const std::string& model, Tensors inputs, Tensors outputs)
      : inputs_(std::move(inputs)), outputs_(std::move(outputs)) {
    OrtSessionOptions* raw_options = nullptr;
    check_status(api().CreateSessionOptions(&raw_options));
    const ortdl::SessionOptionsHandle options(raw_options);
    check_status(api().SetIntraOpNumThreads(raw_options, 1));
    OrtSession* session = nullptr;
    check_status(api().CreateSessionFromArray(ortdl::environment(), model.data(), model.size(),
                                              raw_options, &session));
    session_.reset(session);
    OrtRunOptions* run_options = nullptr;
    check_status(api().CreateRunOptions(&run_options));
    run_options_.reset(run_options);
    OrtIoBinding* binding = nullptr;
    check_status(api().CreateIoBinding(session, &binding));
    binding_.reset(binding);
    for (const auto& [name, tensor] : inputs_) {
      check_status(api().BindInput(binding, name.c_str(), keep(tensor)));
      input_names_.push_back(name.c_str());
    }
    for (const auto& [name, tensor] : outputs_) {
      check_status(api().BindOutput(binding, name.c_str(), keep(tensor)));
      output_names_.push_back(name.c_str());
    }
  }

  // Inputs and outputs were bound once: a run is a single C call.
  double time_prebound(int64_t count) const {
    const OrtApi& ort = api();
    return time_calls(count, [&] {
      check_status(ort.RunWithBinding(session_.get(), run_options_.get(), binding_.get()));
    });
  }

  // A run makes new input values, and drops the output values that it gets.
  double time_run(int64_t count) const {
    const OrtApi& ort = api();
    std::vector<ValueHandle> owned(inputs_.size());
    std::vector<const OrtValue*> inputs(inputs_.size());
    std::vector<OrtValue*> outputs(outputs_.size());
    return time_calls(count, [&] {
      size_t i = 0;
      for (const auto& [name, tensor] : inputs_) {
        owned[i] = owning_value(ort, tensor, memory_.get());
        inputs[i] = owned[i].get();
        ++i;
      }
      std::ranges::fill(outputs, nullptr);
      check_status(ort.Run(session_.get(), run_options_.get(), input_names_.data(), inputs.data(),
                           inputs.size(), output_names_.data(), outputs.size(), outputs.data()));
      std::ranges::for_each(outputs, ort.ReleaseValue);
    });
  }

 private:
  const OrtValue* keep(const at::Tensor& tensor) {
    values_.push_back(owning_value(api(), tensor, memory_.get()));
    return values_.back().get();
  }

  Tensors inputs_;
  Tensors outputs_;
  std::vector<const char*> input_names_;
  std::vector<const char*> output_names_;
  MemoryInfoHandle memory_ = cpu_memory();
  std::vector<ValueHandle> values_;
  ortdl::SessionHandle session_;
  RunOptionsHandle run_options_;
  BindingHandle binding_;
};

}  // namespace

// onnxruntime calls this with the API table of the very runtime that Python uses.
extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* /*options*/, const OrtApiBase* base) noexcept {
  try {
    ortdl::attach_runtime(base);
    return nullptr;
  } catch (const std::exception& error) {
    return base->GetApi(1)->CreateStatus(ORT_FAIL, error.what());
  }
}

PYBIND11_MODULE(TORCH_EXTENSION_NAME, module) {
  module.def("time_to_value", time_to_value);
  module.def("time_from_value", time_from_value);
  py::class_<BareSession>(module, "BareSession")
      .def(py::init<const std::string&, Tensors, Tensors>())
      .def("time_prebound", &BareSession::time_prebound)
      .def("time_run", &BareSession::time_run);
}
