#include <ortdl/text.h>
#include <ortdl/wording.h>

#include <algorithm>

namespace ortdl {

bool is_text(const Value& value) {
  return value.is_tensor() && value.type_string() == "tensor(string)";
}

Text::Text(const Value& value) {
  TORCH_CHECK_TYPE(is_text(value), "expected a tensor(string), not ",
                   with_article(value.type_string()));
  sizes_ = value.sizes().vec();
  starts_.resize(static_cast<size_t>(c10::multiply_integers(sizes_)));
  if (starts_.empty()) {
    return;
  }
  size_t length = 0;
  check_status(api().GetStringTensorDataLength(value.handle(), &length));
  bytes_.resize(length);
  check_status(api().GetStringTensorContent(value.handle(), bytes_.data(), length, starts_.data(),
                                            starts_.size()));
}

std::string_view Text::operator[](size_t index) const {
  const size_t end = index + 1 < starts_.size() ? starts_[index + 1] : bytes_.size();
  return std::string_view(bytes_).substr(starts_[index], end - starts_[index]);
}

ValuePtr make_text(at::ArrayRef<std::string_view> strings, at::IntArrayRef sizes) {
  const int64_t count = checked_numel(sizes);
  TORCH_CHECK_VALUE(static_cast<size_t>(count) == strings.size(), "a tensor(string) of shape ",
                    sizes, " takes ", count, " strings, but ", strings.size(), " were given");
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  ::OrtValue* created = nullptr;
  check_status(api().CreateTensorAsOrtValue(allocator, sizes.data(), sizes.size(),
                                            ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, &created));
  ValueHandle handle(created);
  for (size_t i = 0; i < strings.size(); ++i) {
    // The functions that fill take C strings, which end at the first zero.
    char* buffer = nullptr;
    check_status(api().GetResizedStringTensorElementBuffer(created, i, strings[i].size(), &buffer));
    std::ranges::copy(strings[i], buffer);
  }
  return c10::make_intrusive<Value>(std::move(handle));
}

}  // namespace ortdl
