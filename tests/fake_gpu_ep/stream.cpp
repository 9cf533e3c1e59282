#include "stream.h"

#include <atomic>
#include <utility>

#include "recorder.h"

namespace fake_gpu {
namespace {

void wait(Queue& queue, const char* why) {
  Recorder::instance().log(
      std::string(why) + ", " + place(queue.device()) + ", stream " + text_of(queue.handle()),
      &FakeGpuEpCounters::stream_waits);
  queue.synchronize();
}

/// A mark in a queue that hosts and other queues can wait for.
class Notification final : public OrtSyncNotificationImpl {
 public:
  explicit Notification(std::shared_ptr<Queue> producer) noexcept
      : OrtSyncNotificationImpl{}, producer_(std::move(producer)) {
    ort_version_supported = ORT_API_VERSION;
    Release = release;
    Activate = activate;
    WaitOnDevice = wait_on_device;
    WaitOnHost = wait_on_host;
  }

 private:
  using Reached = std::shared_ptr<std::atomic<bool>>;

  static Notification& from(OrtSyncNotificationImpl* self) noexcept {
    return *static_cast<Notification*>(self);
  }

  static void ORT_API_CALL release(OrtSyncNotificationImpl* self) noexcept {
    const std::unique_ptr<Notification> owned(&from(self));
  }

  static OrtStatus* ORT_API_CALL activate(OrtSyncNotificationImpl* self) noexcept {
    return guarded([&] {
      Notification& mark = from(self);
      mark.reached_ = std::make_shared<std::atomic<bool>>(false);
      mark.producer_->submit([reached = mark.reached_] { *reached = true; });
    });
  }

  static OrtStatus* ORT_API_CALL wait_on_device(OrtSyncNotificationImpl* self,
                                                OrtSyncStream* consumer) noexcept {
    // The CPU provider has no stream to make wait.
    if (consumer == nullptr) {
      return wait_on_host(self);
    }
    return guarded([&] {
      Notification& mark = from(self);
      queue_of(mark.producer_->device(), ort().SyncStream_GetHandle(consumer))
          ->submit([reached = mark.reached_, producer = mark.producer_] {
            if (reached != nullptr && !*reached) {
              producer->synchronize();
            }
          });
    });
  }

  static OrtStatus* ORT_API_CALL wait_on_host(OrtSyncNotificationImpl* self) noexcept {
    return guarded([&] { wait(*from(self).producer_, "wait for notification"); });
  }

  std::shared_ptr<Queue> producer_;
  Reached reached_;
};

}  // namespace

Stream::Stream(std::shared_ptr<Queue> queue) noexcept
    : OrtSyncStreamImpl{}, queue_(std::move(queue)) {
  ort_version_supported = ORT_API_VERSION;
  Release = release;
  GetHandle = get_handle;
  CreateNotification = create_notification;
  Flush = flush;
  OnSessionRunEnd = on_session_run_end;
}

void Stream::release(OrtSyncStreamImpl* self) noexcept {
  const std::unique_ptr<Stream> owned(static_cast<Stream*>(self));
  Recorder::instance().log("release stream " + text_of(owned->queue_->handle()));
}

void* Stream::get_handle(OrtSyncStreamImpl* self) noexcept {
  return static_cast<Stream*>(self)->queue_->handle();
}

OrtStatus* Stream::create_notification(OrtSyncStreamImpl* self,
                                       OrtSyncNotificationImpl** out) noexcept {
  return guarded(
      [&] { *out = std::make_unique<Notification>(static_cast<Stream*>(self)->queue_).release(); });
}

OrtStatus* Stream::flush(OrtSyncStreamImpl* self) noexcept {
  return guarded([&] { wait(*static_cast<Stream*>(self)->queue_, "flush"); });
}

OrtStatus* Stream::on_session_run_end(OrtSyncStreamImpl* self) noexcept {
  return guarded([&] {
    Recorder::instance().log("run end at stream " +
                             text_of(static_cast<Stream*>(self)->queue_->handle()));
  });
}

std::unique_ptr<Stream> make_stream(int device, std::optional<void*> given) {
  auto queue = given ? queue_of(device, *given) : create_queue(device);
  Recorder::instance().log(std::string(given ? "given" : "new") + " stream " +
                           text_of(queue->handle()) + ", " + place(device));
  return std::make_unique<Stream>(std::move(queue));
}

}  // namespace fake_gpu
