#include <ortdl/stream_use.h>

#include <algorithm>

namespace ortdl {
namespace {

// The memory goes back whatever fails.
template <typename Action>
void or_warn(Action&& action) noexcept {
  try {
    action();
  } catch (const c10::Error& error) {
    TORCH_WARN("device memory is given back while it may still be read: ",
               error.what_without_backtrace());
  } catch (const std::exception& error) {
    TORCH_WARN("device memory is given back while it may still be read: ", error.what());
  }
}

}  // namespace

StreamUse::StreamUse(c10::Stream home, c10::Storage storage,
                     std::shared_ptr<const Reuser> reuser) noexcept
    : home_(home), storage_(std::move(storage)), reuser_(std::move(reuser)) {}

StreamUse::~StreamUse() {
  for (const c10::Stream reader : readers_) {
    or_warn([&] {
      // What a reader captures since runs later, and must not take `home_` into its graph.
      if (!reader.is_capturing() || home_.is_capturing()) {
        order(reader, home_);
      }
    });
  }
  if (reuser_ != nullptr) {
    or_warn([&] {
      if (!home_.is_capturing()) {
        reuser_->reuse_after(home_);
      }
    });
  }
}

void StreamUse::order_before(c10::Stream reader) {
  if (reader == home_) {
    return;
  }
  order(home_, reader);
  if (is_external(reader) || (storage_ && record_use(storage_.data_ptr(), reader))) {
    return;
  }
  const std::scoped_lock lock(mutex_);
  if (std::ranges::find(readers_, reader) == readers_.end()) {
    readers_.push_back(reader);
  }
}

}  // namespace ortdl
