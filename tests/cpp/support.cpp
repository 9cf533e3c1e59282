#include "support.h"

#include <cstring>

namespace ortdl::test {

at::Tensor patterned(at::IntArrayRef sizes, at::ScalarType type, int64_t first) {
  at::Tensor tensor = at::empty(sizes, type);
  auto* bytes = static_cast<uint8_t*>(tensor.mutable_data_ptr());
  const uint8_t mask = type == at::kBool ? 1 : 0xFF;
  for (size_t i = 0; i < tensor.nbytes(); ++i) {
    bytes[i] = static_cast<uint8_t>(first + static_cast<int64_t>(i)) & mask;
  }
  return tensor;
}

bool same_bits(const at::Tensor& left, const at::Tensor& right) {
  return left.scalar_type() == right.scalar_type() && left.sizes() == right.sizes() &&
         left.is_contiguous() && right.is_contiguous() &&
         std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

at::Tensor tracked(at::IntArrayRef sizes, std::shared_ptr<std::atomic<int>> freed) {
  auto memory =
      std::make_unique<std::vector<float>>(static_cast<size_t>(c10::multiply_integers(sizes)));
  float* data = memory->data();
  const auto release = [owned = std::shared_ptr<std::vector<float>>(std::move(memory)),
                        freed = std::move(freed)](void*) { freed->fetch_add(1); };
  return at::from_blob(data, sizes, release, at::kFloat);
}

ValueHandle runtime_value(ONNXTensorElementDataType type, at::IntArrayRef sizes) {
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  ::OrtValue* value = nullptr;
  check_status(api().CreateTensorAsOrtValue(allocator, sizes.data(), sizes.size(), type, &value));
  return ValueHandle(value);
}

ValuePtr held(ValueHandle handle) { return c10::make_intrusive<Value>(std::move(handle)); }

ValueHandle composed(ONNXType kind, std::initializer_list<const ::OrtValue*> parts) {
  ::OrtValue* value = nullptr;
  check_status(api().CreateValue(std::data(parts), parts.size(), kind, &value));
  return ValueHandle(value);
}

SessionPtr load(const at::Tensor& model) {
  return c10::make_intrusive<Session>(SessionConfig{.model = model});
}

std::vector<at::Tensor> run(const SessionPtr& session, const std::vector<at::Tensor>& inputs) {
  return session->run(inputs);
}

std::vector<at::Tensor> run_for(const Session& session, const std::vector<at::Tensor>& inputs,
                                const std::vector<size_t>& outputs) {
  Feeds feeds(session.inputs());
  for (size_t i = 0; i < inputs.size(); ++i) {
    feeds.set(i, inputs[i]);
  }
  return session.run(feeds, outputs);
}

}  // namespace ortdl::test
