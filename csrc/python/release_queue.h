#pragma once

#include <ortdl/foreign.h>

/// \file
/// Memory that Python objects own may die on a thread without the GIL, which must not wait for it:
/// a thread of ours takes the GIL instead.
namespace ortdl::python {

/// Do `release` at once if this thread holds the GIL, else soon, on the releasing thread. After
/// `stop_release_queue`, or in a process without Python, what needs the GIL leaks.
void release_with_gil(ForeignRelease release) noexcept;

/// Start using the queue: every foreign release of the core goes through it.
void install_release_queue();

/// Do what is pending on this thread, which holds the GIL: called before more memory is borrowed
/// from Python, so that a busy interpreter cannot borrow faster than the releasing thread gets the
/// GIL.
void drain_release_queue() noexcept;

/// End the releasing thread once it has done what is under way; called with the GIL before the
/// interpreter ends.
void stop_release_queue();

}  // namespace ortdl::python
