#pragma once

#include <optional>
#include <string>

#include "api.h"
#include "memory.h"

namespace fake_gpu {

/// The provider of one session, on one device.
///
/// Session options, under "ep.<the provider's name in lower case>.", as ONNX Runtime's CUDA
/// provider has them; addresses are decimal numbers, and 0 is as good as none:
/// - `user_compute_stream`: the stream to work on.
/// - `gpu_external_alloc`, `gpu_external_free`: where device memory comes from. As there, the work
///   is then on the accelerator's default stream, and not on a user's.
class Ep final : public EpBase {
 public:
  /// \throws std::runtime_error if an option is malformed, or names a stream that nothing serves.
  Ep(std::string name, int device, const OrtSessionOptions& options);

 private:
  static Ep& from(OrtEp* self) noexcept { return *static_cast<Ep*>(self); }

  static const char* ORT_API_CALL get_name(const OrtEp* self) noexcept;
  static OrtStatus* ORT_API_CALL get_capability(OrtEp* self, const OrtGraph* graph,
                                                OrtEpGraphSupportInfo* info) noexcept;
  static OrtStatus* ORT_API_CALL compile(OrtEp* self, const OrtGraph** graphs,
                                         const OrtNode** fused, size_t count,
                                         OrtNodeComputeInfo** infos, OrtNode** contexts) noexcept;
  static void ORT_API_CALL release_infos(OrtEp* self, OrtNodeComputeInfo** infos,
                                         size_t count) noexcept;
  static OrtStatus* ORT_API_CALL on_run_start(OrtEp* self, const OrtRunOptions* options) noexcept;
  static OrtStatus* ORT_API_CALL on_run_end(OrtEp* self, const OrtRunOptions* options,
                                            bool synchronize) noexcept;
  static OrtStatus* ORT_API_CALL create_allocator(OrtEp* self, const OrtMemoryInfo* info,
                                                  OrtAllocator** out) noexcept;
  static OrtStatus* ORT_API_CALL create_stream(OrtEp* self, const OrtMemoryDevice* memory,
                                               OrtSyncStreamImpl** out) noexcept;
  static OrtStatus* ORT_API_CALL sync(OrtEp* self) noexcept;

  std::string name_;
  int device_;
  std::optional<void*> stream_;  // if it is always the same
  ExternalSource external_;
};

/// The pointer that `text` is the decimal number of; null for 0 and for no text.
/// \throws std::runtime_error if it is no such number. `option` names it.
void* parse_address(const char* option, const char* text);

}  // namespace fake_gpu
