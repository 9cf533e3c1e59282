#include <ortdl/prepared.h>

namespace ortdl {
namespace {

size_t thread_number() noexcept {
  static std::atomic<size_t> next = 0;
  thread_local const size_t number = next.fetch_add(1, std::memory_order_relaxed);
  return number;
}

}  // namespace

PreparedRuns::Loan PreparedRuns::take(const std::vector<Node>& inputs, bool move) const {
  Prepared* found = places_[thread_number() % places_.size()].exchange(nullptr);
  if (found == nullptr) {
    found = std::make_unique<Prepared>(Prepared{Feeds(inputs, move), {}, 0}).release();
  }
  return Loan(found, {this});
}

void PreparedRuns::give_back(Prepared* prepared) const noexcept {
  prepared->feeds.clear();
  const std::unique_ptr<Prepared> other(
      places_[thread_number() % places_.size()].exchange(prepared));
}

void PreparedRuns::clear() noexcept {
  for (std::atomic<Prepared*>& place : places_) {
    const std::unique_ptr<Prepared> last(place.exchange(nullptr));
  }
}

}  // namespace ortdl
