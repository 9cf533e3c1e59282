#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

/// \file
/// Counters of living objects, for leak tests and leak reports.
namespace ortdl {

/// How many objects are alive in the process.
struct LiveObjects {
  int64_t values;    ///< `Value`s
  int64_t owners;    ///< storages of tensors that OrtValues hold
  int64_t sessions;  ///< `Session`s
};

namespace detail {

enum class Kind : uint8_t { kValue, kOwner, kSession };
inline std::array<std::atomic<int64_t>, 3> live_counts{};

/// Counts the object that it is a member of.
template <Kind kind>
class Counted {
 public:
  Counted() noexcept { live_counts[index].fetch_add(1, std::memory_order_relaxed); }
  Counted(const Counted&) = delete;
  Counted(Counted&&) = delete;
  Counted& operator=(const Counted&) = delete;
  Counted& operator=(Counted&&) = delete;
  ~Counted() { live_counts[index].fetch_sub(1, std::memory_order_relaxed); }

 private:
  static constexpr auto index = static_cast<size_t>(kind);
};

}  // namespace detail

/// The counters now. Exact when no other thread makes or drops objects meanwhile.
[[nodiscard]] inline LiveObjects live_objects() noexcept {
  const auto read = [](detail::Kind kind) {
    return detail::live_counts[static_cast<size_t>(kind)].load(std::memory_order_relaxed);
  };
  return {read(detail::Kind::kValue), read(detail::Kind::kOwner), read(detail::Kind::kSession)};
}

}  // namespace ortdl
