#pragma once

#include "api.h"

namespace fake_gpu {

/// Copies between host memory and the devices of one vendor, and between those devices.
///
/// With a stream a copy waits in it. Without one it is done at once and waits for nothing, as
/// cudaMemcpy does not wait for streams that don't wait for the default one.
class DataTransfer final : public OrtDataTransferImpl {
 public:
  explicit DataTransfer(uint32_t vendor_id) noexcept;

 private:
  static void ORT_API_CALL release(OrtDataTransferImpl* self) noexcept;
  static bool ORT_API_CALL can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* source,
                                    const OrtMemoryDevice* destination) noexcept;
  static OrtStatus* ORT_API_CALL copy_tensors(OrtDataTransferImpl* self, const OrtValue** sources,
                                              OrtValue** destinations, OrtSyncStream** streams,
                                              size_t count) noexcept;

  [[nodiscard]] bool is_ours(const OrtMemoryDevice* memory) const noexcept;

  uint32_t vendor_id_;
};

}  // namespace fake_gpu
