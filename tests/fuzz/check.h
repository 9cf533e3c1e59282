#pragma once

#include <c10/util/Exception.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <typeinfo>
#include <utility>

/// \file
/// What every fuzz target needs: its input, and claims that end the process unless they hold.
namespace ortdl::fuzz {

/// Wide enough for a sum of 64 products of a size and a stride, each clamped to `kHuge`.
using Wide = __int128;
inline constexpr Wide kHuge = Wide{1} << 100;

using Input = std::span<const uint8_t>;

/// Ends the process with `claim`, which the fuzzer then reports, unless it holds.
void require(bool holds, const char* claim, const char* detail = "");

/// No value, owner or session of the library is left.
void check_nothing_lives();

/// The input, from its start; zeros follow its end.
class Reader {
 public:
  explicit Reader(Input input) : left_(input) {}
  uint8_t byte() noexcept;
  /// One byte for a small number, nine for any other: mutations then meet small numbers often.
  int64_t number() noexcept;
  /// Up to 255 bytes, of which the first says how many.
  std::string text();
  /// What was not read yet.
  [[nodiscard]] Input rest() const noexcept { return left_; }

 private:
  Input left_;
};

/// Whether `error` is just a TypeError, ValueError or BufferError.
[[nodiscard]] inline bool is_refusal(const c10::Error& error) {
  return typeid(error) == typeid(c10::TypeError) || typeid(error) == typeid(c10::ValueError) ||
         typeid(error) == typeid(c10::BufferError);
}

/// Runs `call`; true if it returned, false if it threw just one of the three kinds of refusal.
template <typename Call>
bool accepts(Call&& call) {
  try {
    std::forward<Call>(call)();
    return true;
  } catch (const c10::Error& error) {
    require(is_refusal(error), "a refusal is a TypeError, ValueError or BufferError",
            error.what_without_backtrace());
    require(std::strlen(error.what_without_backtrace()) > 0, "a refusal says why");
    return false;
  }
}

/// Runs `call`; true if it returned, false if it threw an error of the library's of any kind, such
/// as what ONNX Runtime says.
template <typename Call>
bool succeeds(Call&& call) {
  try {
    std::forward<Call>(call)();
    return true;
  } catch (const c10::Error& error) {
    require(std::strlen(error.what_without_backtrace()) > 0, "an error says why");
    return false;
  }
}

}  // namespace ortdl::fuzz
