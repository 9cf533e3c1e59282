#pragma once

#include <atomic>

/// \file
/// Whether a process is the one that made an object, or a child that it forked: memory comes along,
/// threads do not.
namespace ortdl {

namespace detail {
extern std::atomic<int> forks;
}

/// The process that made it.
class HomeProcess {
 public:
  /// \throws c10::Error if forks cannot be watched.
  HomeProcess();

  /// Whether this process is that one. Costs the comparison of two integers.
  [[nodiscard]] bool is_here() const noexcept {
    return forks_ == detail::forks.load(std::memory_order_relaxed);
  }

 private:
  int forks_;
};

}  // namespace ortdl
