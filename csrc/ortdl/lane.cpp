#include <c10/core/DeviceGuard.h>
#include <ortdl/lane.h>

#include <map>

namespace ortdl {

void Lane::begin_after(c10::Stream earlier) const {
  if (stream.has_value()) {
    order(earlier, *stream);
    return;
  }
  wait_on_host(earlier);
  if (reusing.has_value()) {
    wait_on_host(*reusing);
  }
}

void Lane::end_before(c10::Stream later) const {
  if (!stream.has_value()) {
    return;
  }
  try {
    order(*stream, later);
  } catch (const c10::Error&) {
    wait_on_host(*stream);  // the inputs' memory may be reused from now on
  }
}

RunOptionsHandle Lane::run_options(bool wait) const {
  OrtRunOptions* created = nullptr;
  check_status(api().CreateRunOptions(&created));
  RunOptionsHandle options(created);
  if (own != nullptr) {
    set_sync_stream()(created, own.get());
  }
  if (stream.has_value() && !wait) {
    check_status(api().AddRunConfigEntry(created, "disable_synchronize_execution_providers", "1"));
  }
  return options;
}

Lanes::Lanes(at::Device device, std::optional<c10::Stream> fixed) : device_(device) {
  if (fixed.has_value()) {
    streams_.push_back(*fixed);
  }
}

std::shared_ptr<Lanes> Lanes::of_plugin(at::Device device, const OrtEpDevice* plugin) {
  static std::mutex mutex;
  static auto& known = *new std::map<const OrtEpDevice*, std::weak_ptr<Lanes>>;
  const std::shared_ptr<Lanes> made(
      new Lanes(device, plugin));  // NOLINT: the constructor is private
  std::optional<Lane> first = made->make();
  if (!first.has_value()) {
    return nullptr;
  }
  made->give_back(*std::move(first));
  const std::scoped_lock lock(mutex);
  std::shared_ptr<Lanes> lanes = known[plugin].lock();
  if (lanes == nullptr) {
    known[plugin] = lanes = made;
  }
  return lanes;
}

void Lanes::wait() const noexcept {
  try {
    for (const c10::Stream stream : streams_from(0)) {
      wait_on_host(stream);
    }
  } catch (const c10::Error& error) {
    TORCH_WARN("a session is released while its work may still run: ",
               error.what_without_backtrace());
  } catch (const std::bad_alloc&) {
    TORCH_WARN("a session is released while its work may still run: out of memory");
  }
}

void Lanes::reuse_after(c10::Stream reader) const {
  // A lane made meanwhile begins after the first one, or is found here.
  for (size_t done = 0;;) {
    const std::vector<c10::Stream> streams = streams_from(done);
    if (streams.empty()) {
      // A stream that nobody knows; a run on one that begins later waits for the above.
      if (done == 0 || streamless_ > 0) {
        wait_on_host(reader);
      }
      return;
    }
    for (const c10::Stream stream : streams) {
      order(reader, stream);
    }
    done += streams.size();
  }
}

Lane Lanes::take(bool own) {
  if (plugin_ == nullptr) {
    return {.stream = streams_.empty() ? std::nullopt : std::optional(streams_.front())};
  }
  if (!own) {
    Lane lane{.reusing = streams_from(0).front()};
    ++streamless_;
    return lane;
  }
  {
    const std::scoped_lock lock(mutex_);
    if (!idle_.empty()) {
      Lane lane = std::move(idle_.back());
      idle_.pop_back();
      return lane;
    }
  }
  std::optional<Lane> lane = make();
  TORCH_CHECK(lane.has_value(), "the plug-in made streams before and now says that it has none");
  return *std::move(lane);
}

void Lanes::give_back(Lane lane) noexcept {
  if (lane.reusing.has_value()) {
    --streamless_;
  } else if (plugin_ != nullptr) {
    const std::scoped_lock lock(mutex_);
    idle_.push_back(std::move(lane));  // there is room: see make()
  }
}

std::optional<Lane> Lanes::make() {
  const c10::DeviceGuard restored(device_);
  OrtSyncStream* created = nullptr;
  StatusHandle refused(api().CreateSyncStreamForEpDevice(plugin_, nullptr, &created));
  SyncStreamHandle own(created);
  if (refused != nullptr && api().GetErrorCode(refused.get()) == ORT_NOT_IMPLEMENTED) {
    return std::nullopt;
  }
  check_status(refused.release());
  const c10::Stream stream =
      stream_of_handle(device_, reinterpret_cast<uintptr_t>(api().SyncStream_GetHandle(created)));
  {
    const std::scoped_lock lock(mutex_);
    idle_.reserve(streams_.size() + 1);
    streams_.push_back(stream);
  }
  order(streams_from(0).front(), stream);  // what the others wait for
  return Lane{.stream = stream, .own = std::move(own)};
}

std::vector<c10::Stream> Lanes::streams_from(size_t first) const {
  const std::scoped_lock lock(mutex_);
  return {streams_.begin() + static_cast<std::ptrdiff_t>(first), streams_.end()};
}

}  // namespace ortdl
