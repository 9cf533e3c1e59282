#include <exception>

#include "accelerator.h"

// More functions under CUDA's names, which a plug-in execution provider uses where it finds them.

using ortdl::test::fake::current;
using ortdl::test::fake::kDevices;
using ortdl::test::fake::machine;

namespace {

constexpr int kInvalidDevice = 101;
constexpr int kInvalidResourceHandle = 400;

}  // namespace

#define FAKE_CUDA extern "C" __attribute__((visibility("default")))

FAKE_CUDA int cudaStreamSynchronize(void* stream) noexcept try {
  machine().synchronize(
      machine().queue_of_handle(reinterpret_cast<uintptr_t>(stream), current().device));
  return 0;
} catch (const std::exception&) {
  return kInvalidResourceHandle;
}

FAKE_CUDA int cudaStreamCreateWithFlags(void** stream, unsigned /*flags*/) noexcept try {
  *stream = reinterpret_cast<void*>(machine().make_external_stream(current().device));
  return 0;
} catch (const std::exception&) {
  return kInvalidDevice;
}

FAKE_CUDA int cudaStreamDestroy(void* stream) noexcept try {
  machine().destroy_external_stream(reinterpret_cast<uintptr_t>(stream));
  return 0;
} catch (const std::exception&) {
  return kInvalidResourceHandle;
}

FAKE_CUDA int cudaSetDevice(int device) noexcept {
  if (device < 0 || device >= kDevices) {
    return kInvalidDevice;
  }
  current().device = static_cast<c10::DeviceIndex>(device);
  return 0;
}

FAKE_CUDA int cudaGetDevice(int* device) noexcept {
  *device = int{current().device};
  return 0;
}
