#include "node.h"

#include <algorithm>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <utility>

#include "memory.h"
#include "queue.h"
#include "recorder.h"

namespace fake_gpu {
namespace {

std::vector<const OrtValueInfo*> input_infos(const OrtNode& node) {
  size_t count = 0;
  check(ort().Node_GetNumInputs(&node, &count));
  std::vector<const OrtValueInfo*> infos(count);
  check(ort().Node_GetInputs(&node, infos.data(), count));
  return infos;
}

std::vector<std::string> input_names(const OrtNode& node) {
  std::vector<std::string> names;
  for (const OrtValueInfo* info : input_infos(node)) {
    const char* name = nullptr;
    check(ort().GetValueInfoName(info, &name));
    names.emplace_back(name);
  }
  return names;
}

std::string operator_type(const OrtNode& node) {
  const char* type = nullptr;
  check(ort().Node_GetOperatorType(&node, &type));
  return type;
}

bool is_float(const OrtValueInfo* value) {
  const OrtTypeInfo* type = nullptr;
  check(ort().GetValueInfoTypeInfo(value, &type));
  const OrtTensorTypeAndShapeInfo* tensor = nullptr;
  check(ort().CastTypeInfoToTensorInfo(type, &tensor));
  ONNXTensorElementDataType element = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  if (tensor != nullptr) {
    check(ort().GetTensorElementType(tensor, &element));
  }
  return element == ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT;
}

Shape shape_of(const OrtValue* value) {
  OrtTensorTypeAndShapeInfo* taken = nullptr;
  check(ort().GetTensorTypeAndShape(value, &taken));
  const TensorInfo info(taken);
  size_t rank = 0;
  check(ort().GetDimensionsCount(info.get(), &rank));
  Shape shape(rank);
  check(ort().GetDimensions(info.get(), shape.data(), rank));
  return shape;
}

FakeGpuEpTensor seen(const OrtValue* value) {
  const void* data = nullptr;
  check(ort().GetTensorData(value, &data));
  return {data, ordinal_of(ep_api().Value_GetMemoryDevice(value))};
}

/// A kernel with all that it needs, to run when its stream does.
struct Launch {
  Op op;
  std::vector<Operand> inputs;
  Shape shape;
  float* result = nullptr;
  // Copies of inputs in host memory.
  std::vector<std::vector<float>> staged;

  void operator()() const { compute(op, inputs, shape, result); }
};

}  // namespace

std::vector<const OrtNode*> nodes_of(const OrtGraph& graph) {
  size_t count = 0;
  check(ort().Graph_GetNumNodes(&graph, &count));
  std::vector<const OrtNode*> nodes(count);
  check(ort().Graph_GetNodes(&graph, nodes.data(), count));
  return nodes;
}

Node::Node(const OrtGraph& graph, const OrtNode& fused, int device)
    : OrtNodeComputeInfo{}, device_(device) {
  ort_version_supported = ORT_API_VERSION;
  CreateState = create_state;
  Compute = compute_in;
  ReleaseState = release_state;
  const OrtNode& node = *nodes_of(graph).at(0);
  const auto op = op_named(operator_type(node));
  if (!op) {
    throw std::runtime_error("there is no kernel for " + operator_type(node));
  }
  op_ = *op;
  const std::vector<std::string> given = input_names(fused);
  for (const std::string& name : input_names(node)) {
    const auto found = std::ranges::find(given, name);
    if (found == given.end()) {
      throw std::runtime_error("the compiled node lacks its input '" + name + "'");
    }
    inputs_.push_back(static_cast<size_t>(found - given.begin()));
  }
}

bool Node::takes(const OrtNode& node) {
  const char* domain = nullptr;
  check(ort().Node_GetDomain(&node, &domain));
  return std::string(domain).empty() && op_named(operator_type(node)) &&
         std::ranges::all_of(input_infos(node), is_float);
}

OrtStatus* Node::create_state(OrtNodeComputeInfo*, OrtNodeComputeContext*, void** state) {
  *state = nullptr;
  return nullptr;
}

OrtStatus* Node::compute_in(OrtNodeComputeInfo* self, void*, OrtKernelContext* context) {
  return guarded([&] { static_cast<const Node*>(self)->run(*context); });
}

void Node::release_state(OrtNodeComputeInfo*, void*) {}

void Node::run(OrtKernelContext& context) const {
  FakeGpuEpCompute record{};
  std::snprintf(record.op, sizeof record.op, "%s", name_of(op_));
  record.device = device_;
  record.input_count = static_cast<uint32_t>(inputs_.size());
  check(ort().KernelContext_GetGPUComputeStream(&context, &record.stream));

  Launch launch{op_, {}, {}, nullptr, {}};
  std::vector<Shape> shapes;
  for (size_t i = 0; i < inputs_.size(); ++i) {
    const OrtValue* value = nullptr;
    check(ort().KernelContext_GetInput(&context, inputs_[i], &value));
    record.inputs[i] = seen(value);
    Operand operand{static_cast<const float*>(record.inputs[i].data), shape_of(value)};
    if (record.inputs[i].device < 0) {
      // Host memory may change once the call is over. ONNX Runtime leaves here what a node of the
      // CPU provider made.
      const float* first = operand.data;
      launch.staged.emplace_back(first, first + element_count(operand.shape));
      operand.data = launch.staged.back().data();
    }
    shapes.push_back(operand.shape);
    launch.inputs.push_back(std::move(operand));
  }
  launch.shape = result_shape(op_, shapes);
  OrtValue* output = nullptr;
  check(ort().KernelContext_GetOutput(&context, 0, launch.shape.data(), launch.shape.size(),
                                      &output));
  void* result = nullptr;
  check(ort().GetTensorMutableData(output, &result));
  if (result == nullptr && std::ranges::find(launch.shape, 0) == launch.shape.end()) {
    throw std::runtime_error("there is no memory for an output");  // ONNX Runtime does not check
  }
  launch.result = static_cast<float*>(result);
  record.output = seen(output);
  Recorder::instance().compute(record);
  queue_of(device_, record.stream)->submit(std::move(launch));
}

}  // namespace fake_gpu
