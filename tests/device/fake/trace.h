#pragma once

#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

namespace ortdl::test::fake {

/// The calls that reached the fake accelerator, in order, and which of them is to fail.
/// Safe from any thread.
class Trace {
 public:
  /// Write the call `kind(detail)` down.
  /// \throws c10::Error "fake: ... failed" in its place, if it is the one that is to fail.
  void call(std::string_view kind, std::string_view detail = {});
  /// The same for a call that only asks: it may fail, but is not written down.
  void query(std::string_view kind);
  /// Write down a call that cannot fail.
  void note(std::string_view kind, std::string_view detail = {});

  /// Let the `nth` call of `kind` from now on fail, 1 being the next; of any kind if it is empty.
  void fail(std::string_view kind, int64_t nth = 1);
  /// Let nothing fail any more. \return The kind of the call that failed, or nothing.
  std::string stop_failing();

  /// The lines since the last time.
  [[nodiscard]] std::vector<std::string> take();

 private:
  void count(std::string_view kind);

  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::string kind_;
  std::string failed_;
  int64_t left_ = 0;
};

}  // namespace ortdl::test::fake
