#include <c10/util/Exception.h>
#include <ortdl/fork.h>
#include <pthread.h>

namespace ortdl {

namespace detail {
std::atomic<int> forks{0};
}

HomeProcess::HomeProcess() {
  // A child inherits the handler with the memory.
  static const int failed = pthread_atfork(
      nullptr, nullptr, [] { detail::forks.fetch_add(1, std::memory_order_relaxed); });
  TORCH_CHECK(failed == 0, "forks of this process cannot be watched: pthread_atfork failed with ",
              failed);
  forks_ = detail::forks.load(std::memory_order_relaxed);
}

}  // namespace ortdl
