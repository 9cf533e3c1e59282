// The bare C calls of ONNX Runtime, timed in C++: what no route through Python can undercut.

#include <ATen/ATen.h>
#include <ortdl/runtime.h>
#include <torch/csrc/autograd/python_variable.h>
#include <torch/csrc/utils/pybind.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace {

using ortdl::api;
using ortdl::check_status;
using ortdl::ValueHandle;
using Tensors = std::vector<at::Tensor>;
using Names = std::vector<std::string>;
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

ONNXTensorElementDataType element_type(at::ScalarType type) {
  switch (type) {
    case at::kFloat:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
    case at::kInt:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT32;
    case at::kLong:
      return ONNX_TENSOR_ELEMENT_DATA_TYPE_INT64;
    default:
      TORCH_CHECK(false, "the floor makes values of float32, int32 and int64 only, not of ", type,
                  ": add it to element_type in floor.cpp");
  }
}

ValueHandle owning_value(const OrtApi& ort, const at::Tensor& tensor, const OrtMemoryInfo* info) {
  auto owner = std::make_unique<Owner>(tensor.storage(), info);
  OrtValue* value = nullptr;
  check_status(ort.CreateTensorWithDataAndDeleterAsOrtValue(
      owner.get(), tensor.data_ptr(), tensor.nbytes(), tensor.sizes().data(), tensor.sizes().size(),
      element_type(tensor.scalar_type()), &value));
  static_cast<void>(owner.release());
  return ValueHandle(value);
}

std::vector<ValueHandle> owning_values(const OrtApi& ort, const Tensors& tensors,
                                       const OrtMemoryInfo* info) {
  std::vector<ValueHandle> values;
  values.reserve(tensors.size());
  for (const at::Tensor& tensor : tensors) {
    values.push_back(owning_value(ort, tensor, info));
  }
  return values;
}

// A value that owns its storage is made of each tensor; then all are released.
double time_to_values(const Tensors& tensors, int64_t count) {
  const OrtApi& ort = api();
  const MemoryInfoHandle info = cpu_memory();
  std::vector<ValueHandle> values(tensors.size());
  return time_calls(count, [&] {
    for (size_t i = 0; i < tensors.size(); ++i) {
      values[i] = owning_value(ort, tensors[i], info.get());
    }
    for (ValueHandle& value : values) {
      value.reset();
    }
  });
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

// Values are read back, and become Python tensors that own nothing; then all are released.
double time_from_values(const Tensors& tensors, int64_t count) {
  const OrtApi& ort = api();
  const MemoryInfoHandle info = cpu_memory();
  const std::vector<ValueHandle> values = owning_values(ort, tensors, info.get());
  std::vector<py::object> wrapped(values.size());
  return time_calls(count, [&] {
    for (size_t i = 0; i < values.size(); ++i) {
      wrapped[i] =
          py::reinterpret_steal<py::object>(THPVariable_Wrap(read_value(ort, values[i].get())));
    }
    for (py::object& tensor : wrapped) {
      tensor.release().dec_ref();
    }
  });
}

// A session whose inputs and outputs are named in the model's order.
class BareSession {
 public:
  BareSession(const std::string& model, Names input_names, Tensors inputs, Names output_names,
              const Tensors& outputs)
      : inputs_(std::move(inputs)),
        input_names_(std::move(input_names)),
        output_names_(std::move(output_names)) {
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
    const auto input_values = owning_values(api(), inputs_, memory_.get());
    for (size_t i = 0; i < input_values.size(); ++i) {
      check_status(api().BindInput(binding, input_names_[i].c_str(), input_values[i].get()));
    }
    const auto output_values = owning_values(api(), outputs, memory_.get());
    for (size_t i = 0; i < output_values.size(); ++i) {
      check_status(api().BindOutput(binding, output_names_[i].c_str(), output_values[i].get()));
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
    const std::vector<const char*> input_names = c_strings(input_names_);
    const std::vector<const char*> output_names = c_strings(output_names_);
    std::vector<ValueHandle> owned(inputs_.size());
    std::vector<const OrtValue*> inputs(inputs_.size());
    std::vector<OrtValue*> outputs(output_names.size());
    return time_calls(count, [&] {
      for (size_t i = 0; i < inputs.size(); ++i) {
        owned[i] = owning_value(ort, inputs_[i], memory_.get());
        inputs[i] = owned[i].get();
      }
      std::ranges::fill(outputs, nullptr);
      check_status(ort.Run(session_.get(), run_options_.get(), input_names.data(), inputs.data(),
                           inputs.size(), output_names.data(), outputs.size(), outputs.data()));
      std::ranges::for_each(outputs, ort.ReleaseValue);
    });
  }

 private:
  static std::vector<const char*> c_strings(const Names& names) {
    std::vector<const char*> pointers(names.size());
    std::ranges::transform(names, pointers.begin(), &std::string::c_str);
    return pointers;
  }

  Tensors inputs_;
  Names input_names_;
  Names output_names_;
  MemoryInfoHandle memory_ = cpu_memory();
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
  module.def("time_to_values", time_to_values);
  module.def("time_from_values", time_from_values);
  py::class_<BareSession>(module, "BareSession")
      .def(py::init<const std::string&, Names, Tensors, Names, const Tensors&>())
      .def("time_prebound", &BareSession::time_prebound)
      .def("time_run", &BareSession::time_run);
}
