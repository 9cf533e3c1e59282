#include <ortdl/prepared.h>

namespace ortdl {
namespace {

size_t thread_number() noexcept {
  static std::atomic<size_t> next = 0;
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

PreparedRuns::~PreparedRuns() {
  for (std::atomic<Prepared*>& place : places_) {
    const std::unique_ptr<Prepared> last(place.exchange(nullptr));
  }
}

PreparedRuns::Loan PreparedRuns::take() const {
  Prepared* found = places_[thread_number() % places_.size()].exchange(nullptr);
  if (found == nullptr) {
    found = std::make_unique<Prepared>(Prepared{Feeds(*inputs_, move_), {}, 0}).release();
  }
  return Loan(found, {this});
}

void PreparedRuns::give_back(Prepared* prepared) const noexcept {
  std::unique_ptr<Prepared> given(prepared);
  if (given->feeds.size() != inputs_->size()) {
    return;  // the feeds were moved away
  }
  given->feeds.clear();
  const std::unique_ptr<Prepared> other(
      places_[thread_number() % places_.size()].exchange(given.release()));
}

}  // namespace ortdl
