#pragma once

#include <ortdl/runtime.h>
#include <ortdl/stream_use.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

/// \file
/// The streams on which the providers of sessions queue the work of their runs.
namespace ortdl {

using SyncStreamHandle = std::unique_ptr<OrtSyncStream, Releaser<&OrtApi::ReleaseSyncStream>>;
using RunOptionsHandle = std::unique_ptr<OrtRunOptions, Releaser<&OrtApi::ReleaseRunOptions>>;

/// The stream of one run: one that the session's providers always use, or one that this run alone
/// uses, or not known. Then the host waits on both sides of the run.
struct Lane {
  std::optional<c10::Stream> stream = std::nullopt;
  SyncStreamHandle own = nullptr;  ///< null if the providers use `stream` always
  /// What the host waits for too before a run on an unknown stream, which may get memory that this
  /// one waits to reuse.
  std::optional<c10::Stream> reusing = std::nullopt;

  /// Let the run's work wait for `earlier`. \throws as `order` and `wait_on_host` do.
  void begin_after(c10::Stream earlier) const;
  /// Let `later` wait for the run's work, and the host where an event fails.
  void end_before(c10::Stream later) const;
  /// Options for a run on this lane. \param wait Whether the run ends when its work is done.
  [[nodiscard]] RunOptionsHandle run_options(bool wait) const;
};

/// The lanes of one accelerator, for one session or for all of one plug-in. Safe from several
/// threads.
///
/// What the providers allocate goes back to them when an output dies: no lane reuses it before the
/// output's readers are done.
class Lanes final : public Reuser {
 public:
  /// For providers that always use `fixed`, or, without it, a stream that nobody knows.
  Lanes(at::Device device, std::optional<c10::Stream> fixed);
  /// For a plug-in whose runs can be given streams: all its sessions share its memory, and these.
  /// Null if it knows no streams.
  [[nodiscard]] static std::shared_ptr<Lanes> of_plugin(at::Device device,
                                                        const OrtEpDevice* plugin);
  Lanes(const Lanes&) = delete;
  Lanes(Lanes&&) = delete;
  Lanes& operator=(const Lanes&) = delete;
  Lanes& operator=(Lanes&&) = delete;
  ~Lanes() override { wait(); }

  /// A lane for one run, given back when this object goes.
  class Loan {
   public:
    /// \param own Whether a stream can be given to the run, through options of its own.
    Loan(Lanes& lanes, bool own) : lanes_(lanes), lane_(lanes.take(own)) {}
    Loan(const Loan&) = delete;
    Loan(Loan&&) = delete;
    Loan& operator=(const Loan&) = delete;
    Loan& operator=(Loan&&) = delete;
    ~Loan() { lanes_.give_back(std::move(lane_)); }
    [[nodiscard]] const Lane& operator*() const noexcept { return lane_; }
    [[nodiscard]] const Lane* operator->() const noexcept { return &lane_; }

   private:
    Lanes& lanes_;
    Lane lane_;
  };

  [[nodiscard]] at::Device device() const noexcept { return device_; }
  /// Let the host wait for the work on every lane. What fails is warned of.
  void wait() const noexcept;
  void reuse_after(c10::Stream reader) const override;

 private:
  [[nodiscard]] Lane take(bool own);
  void give_back(Lane lane) noexcept;
  Lanes(at::Device device, const OrtEpDevice* plugin) : device_(device), plugin_(plugin) {}
  [[nodiscard]] std::optional<Lane> make();
  [[nodiscard]] std::vector<c10::Stream> streams_from(size_t first) const;

  at::Device device_;
  const OrtEpDevice* plugin_ = nullptr;
  mutable std::mutex mutex_;
  std::vector<c10::Stream> streams_;  // of every lane, none if nobody knows it; only ever grows
  std::vector<Lane> idle_;            // of a plug-in
  std::atomic<int> streamless_ = 0;   // runs of a plug-in on a stream that nobody knows
};

}  // namespace ortdl
