#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// \file
/// Protobuf messages taken apart and put together, with code that the library does not have.
namespace ortdl::fuzz {

inline constexpr uint8_t kVarint = 0;
inline constexpr uint8_t kFixed64 = 1;
inline constexpr uint8_t kBytes = 2;
inline constexpr uint8_t kFixed32 = 5;

struct Field {
  uint64_t number;
  uint8_t type;
  uint64_t varint = 0;
  std::string bytes = {};  ///< of the other types
};
using Fields = std::vector<Field>;

/// Takes a number off the front of `bytes`; nothing if there is none.
std::optional<uint64_t> take_varint(std::string_view& bytes);
/// The fields of a message, or nothing if `bytes` are none.
std::optional<Fields> fields_of(std::string_view bytes);
std::string message_of(const Fields& fields);

/// Changes an input of a byte and a message in place, and returns its new size: mostly a field
/// somewhere in the message, which stays one.
size_t mutate_message(uint8_t* data, size_t size, size_t max_size, unsigned int seed);

}  // namespace ortdl::fuzz
