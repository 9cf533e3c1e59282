#include "model_reference.h"

#include <algorithm>
#include <exception>
#include <tuple>

#include "message.h"

namespace ortdl::fuzz {
namespace {

// Thrown where the bytes are no model.
struct Damaged : std::exception {};

Fields read(std::string_view message) {
  std::optional<Fields> fields = fields_of(message);
  if (!fields.has_value()) {
    throw Damaged();
  }
  return *std::move(fields);
}

// Digits only, and no more than 64 bits.
uint64_t number_in(const std::string& text) {
  unsigned __int128 value = 0;
  for (const char digit : text) {
    if (digit < '0' || digit > '9' || value >> 64U != 0) {
      throw Damaged();
    }
    value = value * 10 + static_cast<unsigned>(digit - '0');
  }
  if (text.empty() || value >> 64U != 0) {
    throw Damaged();
  }
  return static_cast<uint64_t>(value);
}

void read_entry(const std::string& entry, ExternalData& external) {
  std::string key;
  std::string value;
  for (const Field& field : read(entry)) {
    if (field.type == kBytes && field.number < 3) {
      (field.number == 1 ? key : value) = field.bytes;
    }
  }
  if (key == "location") {
    external.location = value;
  } else if (key == "offset") {
    external.offset = number_in(value);
  } else if (key == "length") {
    external.length = number_in(value);
  }
}

class ReferenceReader {
 public:
  ModelProto proto;

  void model(const std::string& bytes) {
    for (const Field& field : read(bytes)) {
      if (field.type != kBytes) {
        continue;
      }
      if (field.number == 7) {
        graph(field.bytes, true);
      } else if (field.number == 20) {
        each(field.bytes, 1, [this](const std::string& inner) { graph(inner, false); });
        each(field.bytes, 2, [this](const std::string& inner) { graph(inner, false); });
      } else if (field.number == 25) {
        each(field.bytes, 7, [this](const std::string& inner) { node(inner); });
        each(field.bytes, 11, [this](const std::string& inner) { attribute(inner); });
      }
    }
  }

 private:
  template <typename Visit>
  static void each(const std::string& bytes, uint64_t number, Visit&& visit) {
    for (const Field& field : read(bytes)) {
      if (field.type == kBytes && field.number == number) {
        visit(field.bytes);
      }
    }
  }

  void graph(const std::string& bytes, bool is_main) {
    each(bytes, 1, [this](const std::string& inner) { node(inner); });
    each(bytes, 5, [this, is_main](const std::string& inner) {
      (is_main ? proto.initializers : proto.nested_initializers).push_back(tensor(inner, is_main));
    });
    each(bytes, 15, [this](const std::string& inner) { sparse(inner); });
  }

  void node(const std::string& bytes) {
    bool is_constant = false;
    each(bytes, 4, [&](const std::string& type) { is_constant = type == "Constant"; });
    each(bytes, 2, [&](const std::string& output) {
      if (is_constant) {
        proto.constants.insert(output);
      }
    });
    each(bytes, 5, [this](const std::string& inner) { attribute(inner); });
  }

  void attribute(const std::string& bytes) {
    for (const uint64_t number : {5, 10}) {
      each(bytes, number, [this](const std::string& inner) { tensor(inner, false); });
    }
    for (const uint64_t number : {6, 11}) {
      each(bytes, number, [this](const std::string& inner) { graph(inner, false); });
    }
    for (const uint64_t number : {22, 23}) {
      each(bytes, number, [this](const std::string& inner) { sparse(inner); });
    }
  }

  void sparse(const std::string& bytes) {
    for (const uint64_t number : {1, 2}) {
      each(bytes, number,
           [this](const std::string& inner) { proto.constants.insert(tensor(inner, false).name); });
    }
  }

  Initializer tensor(const std::string& bytes, bool in_main) {
    Initializer result;
    ExternalData external;
    bool is_external = false;
    for (const Field& field : read(bytes)) {
      if (field.number == 1 && field.type == kVarint) {
        result.dims.push_back(static_cast<int64_t>(field.varint));
      } else if (field.number == 1 && field.type == kBytes) {
        std::string_view packed = field.bytes;
        while (!packed.empty()) {
          const std::optional<uint64_t> size = take_varint(packed);
          if (!size.has_value()) {
            throw Damaged();
          }
          result.dims.push_back(static_cast<int64_t>(*size));
        }
      } else if (field.number == 2 && field.type == kVarint) {
        result.data_type = static_cast<int64_t>(field.varint);
      } else if (field.number == 8 && field.type == kBytes) {
        result.name = field.bytes;
      } else if (field.number == 13 && field.type == kBytes) {
        read_entry(field.bytes, external);
      } else if (field.number == 14 && field.type == kVarint) {
        is_external = field.varint == 1;
      }
    }
    if (is_external) {
      proto.external_locations.insert(external.location);
      proto.external_elsewhere |= !in_main;
      result.external = std::move(external);
    }
    return result;
  }
};

auto key_of(const Initializer& initializer) {
  const ExternalData external = initializer.external.value_or(ExternalData());
  return std::tuple(initializer.name, initializer.data_type, initializer.dims,
                    initializer.external.has_value(), external.location, external.offset,
                    external.length);
}

auto sorted_keys(const std::vector<Initializer>& initializers) {
  std::vector<decltype(key_of(initializers.front()))> keys;
  std::ranges::transform(initializers, std::back_inserter(keys), key_of);
  std::ranges::sort(keys);
  return keys;
}

}  // namespace

std::optional<ModelProto> reference_of(std::string_view model) {
  ReferenceReader reader;
  try {
    reader.model(std::string(model));
  } catch (const Damaged&) {
    return std::nullopt;
  }
  return std::move(reader.proto);
}

bool is_same(ModelProto left, ModelProto right) {
  return sorted_keys(left.initializers) == sorted_keys(right.initializers) &&
         sorted_keys(left.nested_initializers) == sorted_keys(right.nested_initializers) &&
         left.constants == right.constants && left.external_locations == right.external_locations &&
         left.external_elsewhere == right.external_elsewhere;
}

}  // namespace ortdl::fuzz
