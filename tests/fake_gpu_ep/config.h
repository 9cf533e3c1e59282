#pragma once

#include <cstdint>
#include <string>

namespace fake_gpu {

/// What the environment asks for. Read when the library is registered.
struct Config {
  std::string ep_name = "FakeGpuExecutionProvider";
  std::string vendor_name = "NVIDIA";
  uint32_t vendor_id = 0x10DE;
  std::string memory_name = "Cuda";
  uint32_t devices = 2;

  /// \throws std::runtime_error if a variable has a value it cannot have.
  static Config from_environment();
};

}  // namespace fake_gpu
