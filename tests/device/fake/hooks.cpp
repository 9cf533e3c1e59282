#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/detail/HIPHooksInterface.h>

#include <utility>

#include "accelerator.h"

namespace ortdl::test::fake {
namespace {

// What both kinds of hooks answer in the same way.
template <typename Interface>
class Hooks : public Interface {
 public:
  void init() const override {}
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex /*device*/) const override { return true; }
  int getNumGPUs() const override { return kDevices; }
  c10::DeviceIndex deviceCount() const override { return kDevices; }
  c10::DeviceIndex current_device() const override { return current().device; }
  c10::DeviceIndex getCurrentDevice() const override { return current().device; }
  void setCurrentDevice(c10::DeviceIndex device) const override { current().device = device; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    return std::exchange(current().device, device);
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override {
    return exchangeDevice(device);
  }
  bool isPinnedPtr(const void* pointer) const override { return is_pinned(pointer); }
  c10::Allocator* getPinnedMemoryAllocator() const override { return &pinned_allocator(); }
  at::Device getDeviceFromPtr(void* pointer) const override {
    const c10::DeviceIndex index = device_of_block(pointer);
    TORCH_CHECK(index >= 0, "fake: the pointer is not memory of a device");
    return {device_type(), index};
  }
};

class CudaHooks final : public Hooks<at::CUDAHooksInterface> {
 public:
  bool hasCUDA() const override { return true; }
  bool hasCUDART() const override { return true; }
  bool hasROCM() const override { return is_amd(); }
};

class HipHooks final : public Hooks<at::HIPHooksInterface> {
 public:
  bool hasHIP() const override { return true; }
};

}  // namespace

void detail::register_hooks(at::DeviceType type) {
  if (type == at::kHIP) {
    at::HIPHooksRegistry()->Register(
        "HIPHooks", [](at::HIPHooksArgs /*args*/) { return std::make_unique<HipHooks>(); });
  } else {
    at::CUDAHooksRegistry()->Register(
        "CUDAHooks", [](at::CUDAHooksArgs /*args*/) { return std::make_unique<CudaHooks>(); });
  }
}

}  // namespace ortdl::test::fake
