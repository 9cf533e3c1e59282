#pragma once

#include <c10/util/ArrayRef.h>
#include <ortdl/value.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// Tensors of strings, which PyTorch has no tensors for.
namespace ortdl {

/// The elements of a tensor of strings, copied out of a value.
///
/// ONNX has strings in UTF-8. ONNX Runtime checks that nowhere, so any bytes may be in them, zero
/// among them.
class Text {
 public:
  /// \throws c10::TypeError unless `value` is a tensor of strings.
  explicit Text(const Value& value);

  [[nodiscard]] at::IntArrayRef sizes() const noexcept { return sizes_; }
  /// The number of elements.
  [[nodiscard]] size_t size() const noexcept { return starts_.size(); }
  /// The element number `index` in C order; this object's memory.
  [[nodiscard]] std::string_view operator[](size_t index) const;

 private:
  std::vector<int64_t> sizes_;
  std::string bytes_;  // of all elements, one after the other
  std::vector<size_t> starts_;
};

/// A tensor of `strings`, in C order, with a copy of them. Any bytes are kept.
/// \throws c10::ValueError unless there are as many as `sizes` needs.
[[nodiscard]] ValuePtr make_text(at::ArrayRef<std::string_view> strings, at::IntArrayRef sizes);

/// Whether `value` is a tensor of strings.
[[nodiscard]] bool is_text(const Value& value);

}  // namespace ortdl
