#pragma once

#include "api.h"

namespace fake_gpu {

/// A caller's own source of device memory, as ONNX Runtime's CUDA provider takes it: options
/// `gpu_external_alloc` and `gpu_external_free`.
struct ExternalSource {
  void* (*allocate)(size_t bytes) = nullptr;
  void (*free)(void* memory) = nullptr;

  [[nodiscard]] bool given() const noexcept { return allocate != nullptr && free != nullptr; }
};

/// Gives out a device's memory.
///
/// A freed block of our own is neither reused nor given back: deferred work may still use it, as
/// it may on a GPU, and a stale read must not find what a later kernel wrote. New blocks hold 0xA5.
class Allocator final : public OrtAllocator {
 public:
  /// \param info What the allocator is asked for: copied.
  /// \throws std::runtime_error if ONNX Runtime refuses to copy it.
  Allocator(const OrtMemoryInfo& info, ExternalSource source);

 private:
  static void* ORT_API_CALL alloc(OrtAllocator* self, size_t bytes);
  static void ORT_API_CALL free(OrtAllocator* self, void* memory);
  static const OrtMemoryInfo* ORT_API_CALL get_info(const OrtAllocator* self);

  ExternalSource source_;
  MemoryInfo info_;
  int device_ = 0;
};

/// The ordinal of the device that `memory` belongs to; -1 for the host's.
int32_t ordinal_of(const OrtMemoryDevice* memory) noexcept;

}  // namespace fake_gpu
