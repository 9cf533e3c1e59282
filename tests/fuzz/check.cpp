#include "check.h"

#include <ortdl/live.h>

#include <cstdio>
#include <cstdlib>

namespace ortdl::fuzz {

void require(bool holds, const char* claim, const char* detail) {
  if (!holds) {
    static_cast<void>(std::fprintf(stderr, "\nNOT TRUE: %s\n%s\n", claim, detail));
    std::abort();
  }
}

void check_nothing_lives() {
  const LiveObjects live = live_objects();
  require(live.values == 0, "no value is left");
  require(live.owners == 0, "no owner is left");
  require(live.sessions == 0, "no session is left");
}

uint8_t Reader::byte() noexcept {
  if (left_.empty()) {
    return 0;
  }
  const uint8_t first = left_.front();
  left_ = left_.subspan(1);
  return first;
}

int64_t Reader::number() noexcept {
  const auto first = static_cast<int8_t>(byte());
  if (first >= -112 && first <= 112) {
    return first;
  }
  uint64_t number = 0;
  for (int shift = 0; shift < 64; shift += 8) {
    number |= uint64_t{byte()} << shift;
  }
  return static_cast<int64_t>(number);
}

std::string Reader::text() {
  // First the byte, by which there are fewer left.
  const size_t wish = byte();
  const size_t size = std::min(wish, left_.size());
  const auto* first = reinterpret_cast<const char*>(left_.data());
  left_ = left_.subspan(size);
  return {first, size};
}

}  // namespace ortdl::fuzz
