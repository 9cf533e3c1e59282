#pragma once

#include <onnxruntime_c_api.h>

#include <exception>
#include <memory>
#include <utility>

/// \file
/// ONNX Runtime's tables, and what the provider needs of them that header 23 does not declare.
namespace fake_gpu {

/// OrtEpApi with the first two entries of release 1.24, which follow header 23's last one.
struct EpApi : OrtEpApi {
  ORT_API2_STATUS(CreateHardwareDevice, OrtHardwareDeviceType type, uint32_t vendor_id,
                  uint32_t device_id, const char* vendor_name, const OrtKeyValuePairs* metadata,
                  OrtHardwareDevice** device);
  ORT_API_T(void, ReleaseHardwareDevice, OrtHardwareDevice* device);
};

/// OrtEp with what release 1.25 reads of it. What is not named stays null: not provided.
struct EpBase : OrtEp {
  void* kernel_registry = nullptr;
  void* concurrent_run_supported = nullptr;
  ORT_API2_STATUS(Sync, OrtEp* self) = nullptr;
  void* later[16] = {};
};

/// Use the runtime behind `base`, for the rest of the process.
/// \throws std::runtime_error if it is older than 1.24, or another one is in use already.
void attach_runtime(const OrtApiBase& base);

/// The API table of the runtime in use.
[[nodiscard]] const OrtApi& ort() noexcept;

/// Its table for execution providers.
[[nodiscard]] const EpApi& ep_api() noexcept;

/// The API version of the runtime in use: 32 for 1.32.0.
[[nodiscard]] uint32_t runtime_version() noexcept;

/// Throw what `status` says, if it says something, and release it.
void check(OrtStatus* status);

/// Make a status of an error's text.
[[nodiscard]] OrtStatus* to_status(const char* message) noexcept;

/// Call `body`, turning what it throws into a status: no exception crosses into ONNX Runtime.
template <class Body>
[[nodiscard]] OrtStatus* guarded(Body&& body) noexcept {
  try {
    std::forward<Body>(body)();
    return nullptr;
  } catch (const std::exception& error) {
    return to_status(error.what());
  }
}

template <auto OrtApi::* Release>
struct Releaser {
  template <class T>
  void operator()(T* object) const noexcept {
    (ort().*Release)(object);
  }
};

struct HardwareDeviceReleaser {
  void operator()(OrtHardwareDevice* device) const noexcept {
    ep_api().ReleaseHardwareDevice(device);
  }
};

using MemoryInfo = std::unique_ptr<OrtMemoryInfo, Releaser<&OrtApi::ReleaseMemoryInfo>>;
using KeyValuePairs = std::unique_ptr<OrtKeyValuePairs, Releaser<&OrtApi::ReleaseKeyValuePairs>>;
using TensorInfo =
    std::unique_ptr<OrtTensorTypeAndShapeInfo, Releaser<&OrtApi::ReleaseTensorTypeAndShapeInfo>>;
using HardwareDevice = std::unique_ptr<OrtHardwareDevice, HardwareDeviceReleaser>;

}  // namespace fake_gpu
