#pragma once

#include <charconv>
#include <optional>
#include <string>

namespace fake_gpu {

/// The number that the whole of `text` is in decimal, if it is one and `Number` holds it.
template <class Number>
std::optional<Number> parse_number(const std::string& text) noexcept {
  Number number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
}

}  // namespace fake_gpu
