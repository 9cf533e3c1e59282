#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/element_type.h>
#include <ortdl/live.h>
#include <ortdl/memory.h>
#include <ortdl/runtime.h>

#include <memory>
#include <utility>

/// \file
/// How an OrtValue owns memory that is not ONNX Runtime's: it comes with an allocator whose `Free`
/// is called once, when the last user of the OrtValue is gone.
namespace ortdl {

/// What a tensor in memory is.
struct Layout {
  const ElementType* type;
  void* data;  ///< the first element
  at::Device device;
  at::IntArrayRef sizes;  ///< logical, C-contiguous
  bool read_only = false;
};

namespace detail {

/// The allocator that owns `Resource`, and itself.
template <typename Resource>
class Owner final : public OrtAllocator {
 public:
  Owner(Resource resource, at::Device device)
      : OrtAllocator{}, resource_(std::move(resource)), info_(memory_info(device)) {
    version = kOldestRuntime;
    Free = [](OrtAllocator* self, void* /*data*/) {
      if (auto* owner = static_cast<Owner*>(self); owner->handed_over_) {
        delete owner;
      }
    };
    Info = [](const OrtAllocator* self) { return static_cast<const Owner*>(self)->info_; };
  }
  Owner(const Owner&) = delete;
  Owner(Owner&&) = delete;
  Owner& operator=(const Owner&) = delete;
  Owner& operator=(Owner&&) = delete;
  ~Owner() = default;

  /// Let `Free` delete this. Before, it does nothing: where ONNX Runtime fails to make the
  /// OrtValue, it may call it or not.
  void hand_over() noexcept { handed_over_ = true; }

 private:
  Counted<Kind::kOwner> counted_;
  Resource resource_;
  const OrtMemoryInfo* info_;
  bool handed_over_ = false;
};

}  // namespace detail

/// An OrtValue over `layout`'s memory that keeps `resource` until it dies. On failure the resource
/// is released.
/// \throws OrtError if ONNX Runtime refuses it.
template <typename Resource>
[[nodiscard]] ValueHandle make_owning(Resource resource, const Layout& layout, size_t bytes) {
  auto owner = std::make_unique<detail::Owner<Resource>>(std::move(resource), layout.device);
  ::OrtValue* created = nullptr;
  check_status(api().CreateTensorWithDataAndDeleterAsOrtValue(
      owner.get(), layout.data, bytes, layout.sizes.data(), layout.sizes.size(), layout.type->ort,
      &created));
  owner.release()->hand_over();  // ONNX Runtime frees it with the value
  return ValueHandle(created);
}

}  // namespace ortdl
