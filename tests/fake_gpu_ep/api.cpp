#include "api.h"

#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "numbers.h"

namespace fake_gpu {
namespace {

struct Runtime {
  const OrtApi* api = nullptr;
  const EpApi* ep_api = nullptr;
  uint32_t version = 0;
};

Runtime runtime;

// `CreateHardwareDevice` came with this release.
constexpr uint32_t kOldestRuntime = 24;
constexpr std::string_view kMajor = "1.";

}  // namespace

void attach_runtime(const OrtApiBase& base) {
  const std::string found = base.GetVersionString();
  const size_t end = found.find('.', kMajor.size());
  const auto minor = found.starts_with(kMajor)
                         ? parse_number<uint32_t>(found.substr(kMajor.size(), end - kMajor.size()))
                         : std::nullopt;
  if (!minor || *minor < kOldestRuntime) {
    throw std::runtime_error(
        "the fake GPU provider makes virtual devices, which takes ONNX Runtime 1.24 or a later "
        "1.x, but this is " +
        found);
  }
  const OrtApi* api = base.GetApi(ORT_API_VERSION);
  if (runtime.api != nullptr && runtime.api != api) {
    throw std::runtime_error(
        "the fake GPU provider serves one ONNX Runtime per process, and another one has it");
  }
  runtime = {api, static_cast<const EpApi*>(api->GetEpApi()), *minor};
}

const OrtApi& ort() noexcept { return *runtime.api; }

const EpApi& ep_api() noexcept { return *runtime.ep_api; }

uint32_t runtime_version() noexcept { return runtime.version; }

void check(OrtStatus* status) {
  if (status != nullptr) {
    const std::string message = ort().GetErrorMessage(status);
    ort().ReleaseStatus(status);
    throw std::runtime_error(message);
  }
}

OrtStatus* to_status(const char* message) noexcept {
  return ort().CreateStatus(ORT_EP_FAIL, message);
}

}  // namespace fake_gpu
