#pragma once

#include <ortdl/runtime.h>

/// \file
/// Ending a run from a signal handler.
///
/// One thread of the process may have its runs ended so. A program's handler for Ctrl-C does it in
/// three steps: `const Interruption now;`, then what it did before, then `now.end_run()`.
namespace ortdl {

/// Let the runs of the calling thread be the ones that `Interruption` ends, also after it forked.
/// \return False if those of another thread already are.
/// \throws OrtError if ONNX Runtime cannot make run options.
[[nodiscard]] bool make_interruptible();

/// Whether a run of this thread was interrupted since this was last asked.
[[nodiscard]] bool take_interruption() noexcept;

/// Let `look` be called before each run, on the run's thread, so that it can put back a handler
/// that somebody took away. It must cost next to nothing.
void look_before_runs(void (*look)() noexcept) noexcept;

/// Ends a run. Async-signal-safe, on any thread. While it exists, the run that is in progress does
/// not return.
class Interruption {
 public:
  Interruption() noexcept;
  Interruption(const Interruption&) = delete;
  Interruption(Interruption&&) = delete;
  Interruption& operator=(const Interruption&) = delete;
  Interruption& operator=(Interruption&&) = delete;
  ~Interruption();

  /// Let the run of the interruptible thread, if it is in one, end soon, with an OrtError that
  /// speaks of its terminate flag.
  void end_run() const noexcept;
};

/// Around one call of ONNX Runtime's that runs a model.
class InterruptibleRun {
 public:
  /// \param options The run's options, or null for ONNX Runtime's defaults.
  explicit InterruptibleRun(OrtRunOptions* options) noexcept;
  InterruptibleRun(const InterruptibleRun&) = delete;
  InterruptibleRun(InterruptibleRun&&) = delete;
  InterruptibleRun& operator=(const InterruptibleRun&) = delete;
  InterruptibleRun& operator=(InterruptibleRun&&) = delete;
  ~InterruptibleRun();

  /// What the run is to be given.
  [[nodiscard]] OrtRunOptions* options() const noexcept { return options_; }

 private:
  OrtRunOptions* options_;
  OrtRunOptions* outer_ = nullptr;  // of the run inside which this one is
};

}  // namespace ortdl
