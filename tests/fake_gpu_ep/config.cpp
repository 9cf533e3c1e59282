#include "config.h"

#include <cstdlib>
#include <optional>
#include <stdexcept>

#include "numbers.h"

namespace fake_gpu {
namespace {

// The most that ONNX Runtime makes room for.
constexpr uint32_t kMostDevices = 8;

std::optional<std::string> variable(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr ? std::nullopt : std::optional<std::string>(value);
}

uint32_t device_count(const std::string& text) {
  const auto count = parse_number<uint32_t>(text);
  if (!count || *count < 1 || *count > kMostDevices) {
    throw std::runtime_error("FAKE_GPU_DEVICES is a number from 1 to " +
                             std::to_string(kMostDevices) + ", not '" + text + "'");
  }
  return *count;
}

}  // namespace

Config Config::from_environment() {
  Config config;
  config.ep_name = variable("FAKE_GPU_NAME").value_or(config.ep_name);
  const std::string vendor = variable("FAKE_GPU_VENDOR").value_or("nvidia");
  if (vendor == "amd") {
    config.vendor_name = "AMD";
    config.vendor_id = 0x1002;
    config.memory_name = "Hip";
  } else if (vendor != "nvidia") {
    throw std::runtime_error("FAKE_GPU_VENDOR is nvidia or amd, not '" + vendor + "'");
  }
  if (const auto count = variable("FAKE_GPU_DEVICES")) {
    config.devices = device_count(*count);
  }
  return config;
}

}  // namespace fake_gpu
