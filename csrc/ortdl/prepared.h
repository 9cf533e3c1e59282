#pragma once

#include <c10/util/SmallVector.h>
#include <ortdl/feeds.h>
#include <ortdl/io_binding.h>
#include <ortdl/node.h>
#include <ortdl/value.h>

#include <array>
#include <atomic>
#include <memory>
#include <vector>

/// \file
/// What a session's runs leave for the next ones, so that a run like the last makes nothing anew.
namespace ortdl {

using PreparedValues = c10::SmallVector<ValuePtr, 8>;

/// What one run needs; one thread at a time has it.
struct Prepared {
  /// All outputs of a run with inputs of the sizes that the feeds had last, or none.
  struct Kept {
    PreparedValues outputs;
    IoBindingHandle binding;  ///< of the feeds' last values and these outputs, or null
  };

  /// Where all outputs are in somebody's hands, the next run's take the place of the oldest.
  [[nodiscard]] Kept& oldest() noexcept { return kept[runs++ % kept.size()]; }
  void forget_bindings() noexcept {
    for (Kept& one : kept) {
      one.binding.reset();
    }
  }
  void forget_outputs() noexcept {
    for (Kept& one : kept) {
      one = {};
    }
  }

  Feeds feeds;
  std::array<Kept, 2> kept;  ///< a loop holds the last run's outputs while it makes the next ones
  size_t runs = 0;
};

/// Keeps a few of them. Safe from any number of threads, none of which ever waits: who finds none
/// makes one. Bounded by the number of places, whatever the number of threads.
class PreparedRuns {
  struct GiveBack {
    const PreparedRuns* owner;
    void operator()(Prepared* prepared) const noexcept { owner->give_back(prepared); }
  };

 public:
  /// A loan of one of them, with empty feeds; it comes back when this goes.
  using Loan = std::unique_ptr<Prepared, GiveBack>;

  /// \param inputs The model's inputs, which must outlive this object; `move` is as for Feeds.
  PreparedRuns(const std::vector<Node>& inputs, bool move) noexcept
      : inputs_(&inputs), move_(move) {}
  PreparedRuns(const PreparedRuns&) = delete;
  PreparedRuns(PreparedRuns&&) = delete;
  PreparedRuns& operator=(const PreparedRuns&) = delete;
  PreparedRuns& operator=(PreparedRuns&&) = delete;
  ~PreparedRuns();

  /// The one that the calling thread gave back last, if it is still there. It must come back before
  /// this object goes.
  [[nodiscard]] Loan take() const;

 private:
  void give_back(Prepared* prepared) const noexcept;

  const std::vector<Node>* inputs_;
  bool move_;
  // A thread always looks in the same place.
  mutable std::array<std::atomic<Prepared*>, 8> places_{};
};

using Preparation = PreparedRuns::Loan;

}  // namespace ortdl
