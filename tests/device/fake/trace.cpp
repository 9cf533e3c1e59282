#include "trace.h"

#include <c10/util/Exception.h>

#include <utility>

namespace ortdl::test::fake {
namespace {

std::string line_of(std::string_view kind, std::string_view detail) {
  std::string line(kind);
  if (!detail.empty()) {
    line.append("(").append(detail).append(")");
  }
  return line;
}

}  // namespace

void Trace::count(std::string_view kind) {
  const bool counts = kind_.empty() || kind_ == kind;
  if (left_ == 0 || !counts) {
    return;
  }
  --left_;
  if (left_ == 0) {
    failed_ = kind;
    TORCH_CHECK(false, "fake: ", failed_, " failed");
  }
}

void Trace::call(std::string_view kind, std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  count(kind);
  lines_.push_back(line_of(kind, detail));
}

void Trace::query(std::string_view kind) {
  const std::scoped_lock lock(mutex_);
  count(kind);
}

void Trace::note(std::string_view kind, std::string_view detail) {
  const std::scoped_lock lock(mutex_);
  lines_.push_back(line_of(kind, detail));
}

void Trace::fail(std::string_view kind, int64_t nth) {
  const std::scoped_lock lock(mutex_);
  kind_ = kind;
  left_ = nth;
  failed_.clear();
}

std::string Trace::stop_failing() {
  const std::scoped_lock lock(mutex_);
  left_ = 0;
  return std::exchange(failed_, {});
}

std::vector<std::string> Trace::take() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(lines_, {});
}

}  // namespace ortdl::test::fake
