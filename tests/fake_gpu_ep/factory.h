#pragma once

#include <vector>

#include "api.h"
#include "config.h"

namespace fake_gpu {

/// What one registration of the library offers: devices, and providers for them.
///
/// It stays when the registration ends, as values may outlive that and give their memory back to an
/// allocator that ONNX Runtime releases through the factory.
class Factory final : public OrtEpFactory {
 public:
  /// Make a factory that is never destroyed.
  static Factory& create(Config config);

  /// Release what belongs to the registration.
  void retire() noexcept;

 private:
  explicit Factory(Config config) noexcept;

  static Factory& from(OrtEpFactory* self) noexcept { return *static_cast<Factory*>(self); }
  static const Factory& from(const OrtEpFactory* self) noexcept {
    return *static_cast<const Factory*>(self);
  }

  static const char* ORT_API_CALL get_name(const OrtEpFactory* self) noexcept;
  static const char* ORT_API_CALL get_vendor(const OrtEpFactory* self) noexcept;
  static uint32_t ORT_API_CALL get_vendor_id(const OrtEpFactory* self) noexcept;
  static const char* ORT_API_CALL get_version(const OrtEpFactory* self) noexcept;
  static OrtStatus* ORT_API_CALL get_devices(OrtEpFactory* self,
                                             const OrtHardwareDevice* const* found,
                                             size_t found_count, OrtEpDevice** out, size_t room,
                                             size_t* count) noexcept;
  static OrtStatus* ORT_API_CALL create_ep(OrtEpFactory* self,
                                           const OrtHardwareDevice* const* devices,
                                           const OrtKeyValuePairs* const* metadata, size_t count,
                                           const OrtSessionOptions* options,
                                           const OrtLogger* logger, OrtEp** out) noexcept;
  static void ORT_API_CALL release_ep(OrtEpFactory* self, OrtEp* ep) noexcept;
  static OrtStatus* ORT_API_CALL create_allocator(OrtEpFactory* self, const OrtMemoryInfo* info,
                                                  const OrtKeyValuePairs* options,
                                                  OrtAllocator** out) noexcept;
  static void ORT_API_CALL release_allocator(OrtEpFactory* self, OrtAllocator* allocator) noexcept;
  static OrtStatus* ORT_API_CALL create_data_transfer(OrtEpFactory* self,
                                                      OrtDataTransferImpl** out) noexcept;
  static bool ORT_API_CALL is_stream_aware(const OrtEpFactory* self) noexcept;
  static OrtStatus* ORT_API_CALL create_stream(OrtEpFactory* self, const OrtMemoryDevice* memory,
                                               const OrtKeyValuePairs* options,
                                               OrtSyncStreamImpl** out) noexcept;

  OrtEpDevice* add_device(uint32_t ordinal);

  Config config_;
  std::vector<HardwareDevice> hardware_;
  // ONNX Runtime keeps their addresses for as long as the library is registered.
  std::vector<MemoryInfo> memory_;
};

}  // namespace fake_gpu
