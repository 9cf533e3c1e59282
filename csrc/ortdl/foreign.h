#pragma once

#include <atomic>

/// \file
/// Giving back what foreign code lent: it may need a lock that this thread must not wait for.
namespace ortdl {

/// A release to be done: `function(object)`.
struct ForeignRelease {
  void (*function)(void*);
  void* object;
};

namespace detail {
inline void release_now(ForeignRelease release) noexcept { release.function(release.object); }
inline std::atomic<void (*)(ForeignRelease) noexcept> foreign_release_hook{&release_now};
}  // namespace detail

/// Do `release`, at once or later on another thread, as the hook decides. Never waits.
inline void release_foreign(ForeignRelease release) noexcept {
  detail::foreign_release_hook.load(std::memory_order_acquire)(release);
}

/// Let `hook` do every release from now on: Python's, which knows of the GIL.
inline void set_foreign_release_hook(void (*hook)(ForeignRelease) noexcept) noexcept {
  detail::foreign_release_hook.store(hook, std::memory_order_release);
}

}  // namespace ortdl
