#pragma once

#include <ortdl/runtime.h>

#include <list>
#include <memory>

/// \file
/// The asynchronous runs that were started and have not ended.
namespace ortdl {

/// ONNX Runtime's options for one run, as the run and whoever may terminate it hold them.
using SharedRunOptions = std::shared_ptr<OrtRunOptions>;

/// ONNX Runtime's default options for a run.
[[nodiscard]] SharedRunOptions make_run_options();

/// Let the run with `options` end at its next node, with an `OrtError`. It may have ended already.
void terminate(const SharedRunOptions& options) noexcept;

/// Terminate every run in flight and wait until none is left; no other can be started from then on.
/// A program calls it before it ends (in Python, that is done at exit): ONNX Runtime's and
/// PyTorch's threads must not work while what they use is torn down. Call it without Python's GIL.
void end_runs_in_flight();

namespace detail {

class RunsInFlight;

/// One run among those in flight, as long as this object lives.
class InFlight {
 public:
  /// \throws c10::Error after `end_runs_in_flight`.
  explicit InFlight(SharedRunOptions options);
  InFlight(const InFlight&) = delete;
  InFlight(InFlight&&) = delete;
  InFlight& operator=(const InFlight&) = delete;
  InFlight& operator=(InFlight&&) = delete;
  ~InFlight();

  [[nodiscard]] OrtRunOptions* options() const noexcept { return place_->get(); }

 private:
  RunsInFlight& among_;
  std::list<SharedRunOptions>::const_iterator place_;
};

}  // namespace detail
}  // namespace ortdl
