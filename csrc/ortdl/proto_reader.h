#pragma once

#include <ortdl/byte_view.h>

#include <cstdint>
#include <optional>

/// \file
/// Protobuf's wire format, as far as ONNX's files need it.
namespace ortdl::detail {

/// How a field is written. The two kinds of groups are not among them: ONNX has none.
enum class WireType : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

/// One field of a message.
struct ProtoField {
  uint32_t number;
  WireType type;
  uint64_t varint = 0;                            ///< of `kVarint`
  ByteView bytes = std::span<const std::byte>();  ///< of the other types; they lie in the message
};

/// Gives a message's fields one by one, and never looks outside its bytes, whatever they are.
class ProtoReader {
 public:
  /// \param message Must outlive this object and the fields it gives.
  explicit ProtoReader(ByteView message) noexcept : rest_(message) {}

  /// The next field, or nothing at the end. \throws c10::ValueError where the bytes are no message,
  ///   c10::Error if a file cannot be read.
  [[nodiscard]] std::optional<ProtoField> next();
  /// The next of the bare numbers that a packed field is made of. \throws as above.
  [[nodiscard]] std::optional<uint64_t> next_packed();

 private:
  [[nodiscard]] uint64_t take_varint();
  [[nodiscard]] ByteView take(uint64_t count);

  ByteView rest_;
};

}  // namespace ortdl::detail
