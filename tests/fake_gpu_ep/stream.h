#pragma once

#include <memory>
#include <optional>

#include "api.h"
#include "queue.h"

namespace fake_gpu {

/// A queue as ONNX Runtime's stream.
class Stream final : public OrtSyncStreamImpl {
 public:
  explicit Stream(std::shared_ptr<Queue> queue) noexcept;

 private:
  static void ORT_API_CALL release(OrtSyncStreamImpl* self) noexcept;
  static void* ORT_API_CALL get_handle(OrtSyncStreamImpl* self) noexcept;
  static OrtStatus* ORT_API_CALL create_notification(OrtSyncStreamImpl* self,
                                                     OrtSyncNotificationImpl** out) noexcept;
  static OrtStatus* ORT_API_CALL flush(OrtSyncStreamImpl* self) noexcept;
  static OrtStatus* ORT_API_CALL on_session_run_end(OrtSyncStreamImpl* self) noexcept;

  std::shared_ptr<Queue> queue_;
};

/// The queue of a stream as options ask for it: round `user_stream`, or new if that is null.
std::unique_ptr<Stream> make_stream(int device, std::optional<void*> given);

}  // namespace fake_gpu
