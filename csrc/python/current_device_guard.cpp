#include <Python.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <python/current_device_guard.h>
#include <torch/csrc/utils/device_lazy_init.h>

namespace ortdl::python {
namespace {

using c10::impl::VirtualGuardImpl;

// Asking the accelerator's runtime would initialise it, which makes a later fork unusable.
bool is_initialized(at::DeviceType type) {
  if (!c10::impl::hasDeviceGuardImpl(type)) {
    return false;
  }
  auto* allocator = dynamic_cast<c10::DeviceAllocator*>(c10::GetAllocator(type));
  return allocator != nullptr && allocator->initialized();
}

}  // namespace

CurrentDeviceGuard::CurrentDeviceGuard() {
  for (const at::DeviceType type : {at::kCUDA, at::kHIP}) {
    if (is_initialized(type)) {
      note(type);
      return;  // no PyTorch has both
    }
  }
}

void CurrentDeviceGuard::note(at::DeviceType type) {
  const VirtualGuardImpl accelerator(type);
  const at::Device current = accelerator.getDevice();
  for (at::DeviceIndex i = 0; i < accelerator.deviceCount(); ++i) {
    streams_.push_back(accelerator.getStream({type, i}));
  }
  device_ = current;
}

void CurrentDeviceGuard::enter(at::Device device) {
  if (!device_.has_value()) {
    torch::utils::maybe_initialize_device(device);
    note(device.type());
  }
  VirtualGuardImpl(device.type()).setDevice(device);
}

void CurrentDeviceGuard::restore() noexcept {
  if (!device_.has_value()) {
    return;
  }
  const VirtualGuardImpl accelerator(device_->type());
  try {
    for (const c10::Stream stream : streams_) {
      accelerator.exchangeStream(stream);
    }
  } catch (const std::exception& error) {
    TORCH_WARN("the current stream could not be put back: ", error.what());
  }
  accelerator.uncheckedSetDevice(*device_);
}

}  // namespace ortdl::python
