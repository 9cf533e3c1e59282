#pragma once

#include <atomic>

/// \file
/// What a compiler that traces a program is told, which only Python knows.
namespace ortdl {

namespace detail {
inline bool never_exporting() noexcept { return false; }
inline std::atomic<bool (*)() noexcept> exporting_hook{&never_exporting};
}  // namespace detail

/// Whether torch.export runs right now; never in a process without Python.
inline bool is_exporting() noexcept {
  return detail::exporting_hook.load(std::memory_order_acquire)();
}

/// Let `hook` answer from now on. It is called without the GIL.
inline void set_exporting_hook(bool (*hook)() noexcept) noexcept {
  detail::exporting_hook.store(hook, std::memory_order_release);
}

}  // namespace ortdl
