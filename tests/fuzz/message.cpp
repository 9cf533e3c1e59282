#include "message.h"

#include <algorithm>
#include <array>
#include <limits>
#include <random>
#include <utility>

#include "target.h"

namespace ortdl::fuzz {
namespace {

constexpr std::array<uint64_t, 24> kNumbers{0,           1,
                                            2,           3,
                                            6,           7,
                                            8,           9,
                                            10,          11,
                                            16,          20,
                                            21,          22,
                                            26,          64,
                                            127,         128,
                                            0x7FFFFFFF,  0x80000000,
                                            0xFFFFFFFF,  std::numeric_limits<int64_t>::max(),
                                            1ULL << 63U, std::numeric_limits<uint64_t>::max()};

void put_varint(std::string& bytes, uint64_t value) {
  for (; value >= 0x80U; value >>= 7U) {
    bytes += static_cast<char>((value & 0x7FU) | 0x80U);
  }
  bytes += static_cast<char>(value);
}

class Mutation {
 public:
  Mutation(unsigned int seed, std::string_view whole) : random_(seed), whole_(whole) {}

  // Changes a field of the message or of one in it.
  std::string change(std::string_view message) {
    std::optional<Fields> fields = fields_of(message);
    if (!fields.has_value()) {
      return changed_bytes(std::string(message));
    }
    if (fields->empty()) {
      fields->push_back(donor());
      return message_of(*fields);
    }
    Field& field = any(*fields);
    if (looks_like_message(field) && below(4) != 0) {
      field.bytes = change(field.bytes);
    } else {
      change(*fields, field);
    }
    return message_of(*fields);
  }

 private:
  size_t below(size_t limit) { return random_() % limit; }
  Field& any(Fields& fields) { return fields[below(fields.size())]; }

  static bool looks_like_message(const Field& field) {
    return field.type == kBytes && !field.bytes.empty() && fields_of(field.bytes).has_value();
  }

  // A copy of some field of the whole message.
  Field donor() {
    std::optional<Fields> fields = fields_of(whole_);
    if (!fields.has_value() || fields->empty()) {
      return {.number = 1 + below(26), .type = kVarint, .varint = kNumbers[below(kNumbers.size())]};
    }
    Field found = any(*fields);
    while (looks_like_message(found) && below(4) != 0) {
      Fields inner = fields_of(found.bytes).value_or(Fields());
      found = any(inner);
    }
    return found;
  }

  std::string changed_bytes(std::string bytes) {
    const size_t size = bytes.size();
    bytes.resize(size + 16);
    bytes.resize(LLVMFuzzerMutate(reinterpret_cast<uint8_t*>(bytes.data()), size, bytes.size()));
    return bytes;
  }

  void change(Fields& fields, Field& field) {
    const auto place = fields.begin() + (&field - fields.data());
    const auto anywhere = [&] {
      return fields.begin() + static_cast<std::ptrdiff_t>(below(fields.size() + 1));
    };
    switch (below(9)) {
      case 0:
        fields.erase(place);
        return;
      case 1:
        fields.insert(anywhere(), Field(field));
        return;
      case 2:
        std::swap(field, any(fields));
        return;
      case 3:
        field.number = 1 + below(26);
        return;
      case 4:
        fields.insert(anywhere(), donor());
        return;
      case 5:
        field.bytes = donor().bytes;
        return;
      case 6:
        field.type = field.type == kBytes ? kVarint : kBytes;
        return;
      default:
        change_content(field);
    }
  }

  void change_content(Field& field) {
    if (field.type == kVarint) {
      field.varint = below(2) == 0 ? kNumbers[below(kNumbers.size())] : field.varint ^ below(256);
    } else if (field.type == kBytes) {
      field.bytes = changed_bytes(std::move(field.bytes));
    } else {
      std::ranges::generate(field.bytes, [this] { return static_cast<char>(below(256)); });
    }
  }

  std::minstd_rand random_;
  std::string_view whole_;
};

}  // namespace

std::optional<uint64_t> take_varint(std::string_view& bytes) {
  uint64_t value = 0;
  for (size_t i = 0; i < std::min<size_t>(bytes.size(), 10); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    value |= uint64_t{byte & 0x7FU} << (7 * i);
    if (byte < 0x80U) {
      bytes.remove_prefix(i + 1);
      return value;
    }
  }
  return std::nullopt;
}

std::optional<Fields> fields_of(std::string_view bytes) {
  Fields fields;
  while (!bytes.empty()) {
    const std::optional<uint64_t> tag = take_varint(bytes);
    if (!tag.has_value() || *tag < 8 || *tag >> 32U != 0) {
      return std::nullopt;
    }
    Field field{.number = *tag >> 3U, .type = static_cast<uint8_t>(*tag & 7U)};
    uint64_t size = field.type == kFixed64 ? 8 : 4;
    if (field.type == kVarint || field.type == kBytes) {
      const std::optional<uint64_t> number = take_varint(bytes);
      if (!number.has_value()) {
        return std::nullopt;
      }
      (field.type == kVarint ? field.varint : size) = *number;
    } else if (field.type != kFixed64 && field.type != kFixed32) {
      return std::nullopt;
    }
    if (field.type != kVarint) {
      if (size > bytes.size()) {
        return std::nullopt;
      }
      field.bytes = bytes.substr(0, size);
      bytes.remove_prefix(size);
    }
    fields.push_back(std::move(field));
  }
  return fields;
}

std::string message_of(const Fields& fields) {
  std::string bytes;
  for (const Field& field : fields) {
    put_varint(bytes, (field.number << 3U) | field.type);
    if (field.type == kVarint) {
      put_varint(bytes, field.varint);
      continue;
    }
    if (field.type == kBytes) {
      put_varint(bytes, field.bytes.size());
    }
    bytes += field.bytes;
  }
  return bytes;
}

size_t mutate_message(uint8_t* data, size_t size, size_t max_size, unsigned int seed) {
  if (size < 2 || seed % 8 == 0) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  const std::string before(reinterpret_cast<char*>(data) + 1, size - 1);
  Mutation mutation(seed / 8, before);
  std::string after = before;
  for (unsigned int i = 0; i <= seed / 8 % 3; ++i) {
    after = mutation.change(after);
  }
  if (after.size() >= max_size) {
    return LLVMFuzzerMutate(data, size, max_size);
  }
  std::ranges::copy(after, data + 1);
  return after.size() + 1;
}

}  // namespace ortdl::fuzz
