#pragma once

#include <cstddef>
#include <functional>

namespace fake_gpu {

/// What a stream runs, once and in order.
using Work = std::function<void()>;

/// The CUDA runtime of this process, if it has an emulated one: what it exports is called by name.
///
/// `cudaLaunchHostFunc` is what makes one. Of the rest each is used where it is there.
class Accelerator {
 public:
  /// The accelerator, or null. Looked for at the first call, so it must have been loaded by then.
  static const Accelerator* find();

  /// Put `work` on a stream of `device`.
  void launch(int device, void* stream, Work work) const;

  /// Wait on the host for a stream of `device`.
  /// \throws std::runtime_error if the accelerator has no way to wait.
  void synchronize(int device, void* stream) const;

  /// Wait on the host for all of a device's streams.
  /// \throws std::runtime_error if the accelerator has no way to wait.
  void synchronize_device(int device) const;

  /// Make a stream that does not wait for the default one; null if the accelerator makes none.
  [[nodiscard]] void* create_stream(int device) const;
  void destroy_stream(void* stream) const noexcept;

  /// Allocate device memory; null if it has none of its own, or none left.
  [[nodiscard]] void* allocate(int device, size_t bytes) const;

  /// Make `device` the thread's current one, and leave it so.
  void set_device(int device) const;

 private:
  Accelerator();

  class CurrentDevice;

  int (*launch_host_func_)(void* stream, void (*function)(void*), void* data);
  int (*stream_synchronize_)(void* stream);
  int (*stream_create_)(void** stream, unsigned flags);
  int (*stream_destroy_)(void* stream);
  int (*device_synchronize_)();
  int (*set_device_)(int device);
  int (*get_device_)(int* device);
  int (*malloc_)(void** memory, size_t bytes);
};

}  // namespace fake_gpu
