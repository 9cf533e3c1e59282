#include <ortdl/sequence.h>
#include <ortdl/wording.h>

namespace ortdl {
namespace {

ValuePtr make(ONNXType kind, at::ArrayRef<const ::OrtValue*> parts) {
  ::OrtValue* created = nullptr;
  check_status(api().CreateValue(parts.data(), parts.size(), kind, &created));
  return c10::make_intrusive<Value>(ValueHandle(created));
}

}  // namespace

ValuePtr make_sequence(at::ArrayRef<ValuePtr> items) {
  std::vector<const ::OrtValue*> handles;
  handles.reserve(items.size());
  for (const ValuePtr& item : items) {
    handles.push_back(item->handle());
  }
  return make(ONNX_TYPE_SEQUENCE, handles);
}

ValuePtr make_map(const Value& keys, const Value& values) {
  return make(ONNX_TYPE_MAP, {keys.handle(), values.handle()});
}

std::vector<ValuePtr> parts(const Value& value) {
  TORCH_CHECK_TYPE(value.kind() == ONNX_TYPE_SEQUENCE || value.kind() == ONNX_TYPE_MAP,
                   "expected a sequence or a map, not ", with_article(value.type_string()));
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  size_t count = 0;
  check_status(api().GetValueCount(value.handle(), &count));
  std::vector<ValuePtr> result;
  result.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    ::OrtValue* part = nullptr;
    check_status(api().GetValue(value.handle(), static_cast<int>(i), allocator, &part));
    result.push_back(c10::make_intrusive<Value>(ValueHandle(part)));
  }
  return result;
}

}  // namespace ortdl
