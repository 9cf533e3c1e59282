#include <c10/util/Exception.h>
#include <ortdl/proto_reader.h>

namespace ortdl::detail {
namespace {

constexpr const char* kNoModel = "the bytes are no ONNX model: ";

}  // namespace

std::optional<ProtoField> ProtoReader::next() {
  if (rest_.empty()) {
    return std::nullopt;
  }
  constexpr uint64_t largest_number = (uint64_t{1} << 29U) - 1;
  const uint64_t tag = take_varint();
  const uint64_t number = tag >> 3U;
  TORCH_CHECK_VALUE(number > 0 && number <= largest_number, kNoModel, "no field has the number ",
                    number);
  ProtoField field{.number = static_cast<uint32_t>(number), .type = WireType(tag & 7U)};
  switch (field.type) {
    case WireType::kVarint:
      field.varint = take_varint();
      return field;
    case WireType::kFixed64:
      field.bytes = take(sizeof(uint64_t));
      return field;
    case WireType::kBytes:
      field.bytes = take(take_varint());
      return field;
    case WireType::kFixed32:
      field.bytes = take(sizeof(uint32_t));
      return field;
  }
  TORCH_CHECK_VALUE(false, kNoModel, "the field ", number, " is of the kind ", tag & 7U,
                    ", which ONNX has not");
}

std::optional<uint64_t> ProtoReader::next_packed() {
  return rest_.empty() ? std::nullopt : std::optional(take_varint());
}

uint64_t ProtoReader::take_varint() {
  constexpr unsigned bits_of_byte = 7;
  uint64_t value = 0;
  for (unsigned shift = 0; shift < 64; shift += bits_of_byte) {
    const auto byte = std::to_integer<uint64_t>(take(1)[0]);
    value |= (byte & 0x7FU) << shift;
    if (byte < 0x80U) {
      return value;
    }
  }
  TORCH_CHECK_VALUE(false, kNoModel, "a number has more than 64 bits");
}

ByteView ProtoReader::take(uint64_t count) {
  TORCH_CHECK_VALUE(count <= rest_.size(), kNoModel, count, " bytes should follow where ",
                    rest_.size(), " are left");
  return rest_.split(static_cast<size_t>(count));
}

}  // namespace ortdl::detail
