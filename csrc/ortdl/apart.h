#pragma once

#include <ortdl/node.h>
#include <ortdl/value.h>

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

/// \file
/// Memory that must not be written to while it is read.
namespace ortdl {

struct NamedValue;

/// Whether the two share a byte.
[[nodiscard]] inline bool overlap(std::span<const std::byte> one,
                                  std::span<const std::byte> other) noexcept {
  constexpr std::less<> before;
  return !one.empty() && !other.empty() && before(one.data(), other.data() + other.size()) &&
         before(other.data(), one.data() + one.size());
}

/// The memory of a tensor's elements. \throws c10::TypeError if the value is no tensor.
[[nodiscard]] inline std::span<const std::byte> memory_of(const Value& value) {
  return {static_cast<const std::byte*>(value.data()), value.nbytes()};
}

/// \throws c10::ValueError if `target`, for `output`, shares memory with one of `initializers`,
///   which later runs read.
void require_apart(const Value& target, const Node& output,
                   const std::vector<NamedValue>& initializers);

}  // namespace ortdl
