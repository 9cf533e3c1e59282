#pragma once

#include <c10/core/Device.h>
#include <ortdl/runtime.h>

/// \file
/// Where memory is: PyTorch's devices and ONNX Runtime's memory infos.
namespace ortdl {

/// ONNX Runtime's description of `device`'s memory, made once and kept for the process.
/// \throws c10::ValueError if values cannot live on `device`.
[[nodiscard]] const OrtMemoryInfo* memory_info(at::Device device);

/// PyTorch's device for memory that ONNX Runtime describes by `info`.
///
/// Memory that the host can read, pinned memory included, is on the CPU.
/// \throws c10::ValueError that names the memory if PyTorch has no device for it here.
[[nodiscard]] at::Device device_of(const OrtMemoryInfo* info);

}  // namespace ortdl
