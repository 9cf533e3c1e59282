#pragma once

#include <cstddef>

/// \file
/// The emulated devices. All are alike.
namespace emulator {

/// CUDA_EMULATOR_DEVICES, or 2.
[[nodiscard]] int device_count();

/// Bytes of memory that each device has: CUDA_EMULATOR_MEMORY, or 4 GiB.
[[nodiscard]] std::size_t device_memory();

/// The calling thread's device.
[[nodiscard]] int current_device() noexcept;

[[nodiscard]] bool is_device(int device);

/// A device has a context once it was made current, or something was made on it.
[[nodiscard]] bool has_context(int device);

}  // namespace emulator
