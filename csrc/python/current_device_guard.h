#pragma once

#include <c10/core/Stream.h>
#include <c10/util/SmallVector.h>

#include <optional>

/// \file
/// Other people's code may change what is current for its thread; the caller must not notice.
namespace ortdl::python {

/// Puts back the calling thread's current device, and its current stream on every device, on every
/// way out. What PyTorch has not initialised yet is left alone: nobody chose anything there.
class CurrentDeviceGuard {
 public:
  /// Notes what is current now.
  CurrentDeviceGuard();
  CurrentDeviceGuard(const CurrentDeviceGuard&) = delete;
  CurrentDeviceGuard(CurrentDeviceGuard&&) = delete;
  CurrentDeviceGuard& operator=(const CurrentDeviceGuard&) = delete;
  CurrentDeviceGuard& operator=(CurrentDeviceGuard&&) = delete;
  ~CurrentDeviceGuard() { restore(); }

  /// Make `device`, an accelerator that is usable, current until `restore`; needs the GIL.
  /// \throws python_error if PyTorch cannot initialise it, as in a forked child.
  void enter(at::Device device);

  /// Put back what was current when the guard was made. It may be called again and again.
  void restore() noexcept;

 private:
  void note(at::DeviceType type);

  std::optional<at::Device> device_;
  c10::SmallVector<c10::Stream, 8> streams_;
};

}  // namespace ortdl::python
