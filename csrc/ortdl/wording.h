#pragma once

#include <cstddef>
#include <string>
#include <string_view>

/// \file
/// Words in error messages that depend on what they speak of.
namespace ortdl {

/// What to do where a session was made before the process forked.
inline constexpr const char* kForkRemedy =
    "make the session in the child (a DataLoader's worker_init_fn does so), or start the child "
    "with 'spawn' (multiprocessing_context='spawn')";

/// "1 input", "2 inputs".
[[nodiscard]] inline std::string counted(size_t count, std::string_view what) {
  return std::to_string(count) + " " + std::string(what) + (count == 1 ? "" : "s");
}

/// "1 was given", "2 were given".
[[nodiscard]] inline std::string were_given(size_t count) {
  return std::to_string(count) + (count == 1 ? " was given" : " were given");
}

/// "a tensor(float)", "an optional(tensor(float))"; that of "uint4" is spoken as "you".
[[nodiscard]] inline std::string with_article(std::string_view type) {
  constexpr std::string_view vowels = "aeioAEIO";
  const bool is_vowel = !type.empty() && vowels.find(type.front()) != std::string_view::npos;
  return (is_vowel ? "an " : "a ") + std::string(type);
}

}  // namespace ortdl
