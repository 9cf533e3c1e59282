#pragma once

#include <ATen/dlpack.h>
#include <c10/core/Device.h>
#include <ortdl/runtime.h>

#include <optional>

/// \file
/// Where memory is, in three vocabularies: PyTorch's devices, ONNX Runtime's memory infos, DLPack's
/// devices.
///
/// | PyTorch                   | ONNX Runtime | DLPack                                  |
/// |---------------------------|--------------|-----------------------------------------|
/// | cpu, pinned or not        | Cpu, pinned  | kDLCPU; read too: kDLCUDAHost, kDLROCMHost |
/// | cuda:i (CUDA build)       | Cuda, i      | kDLCUDA, i; read too: kDLCUDAManaged     |
/// | cuda:i (ROCm build), hip:i | Hip, i      | kDLROCM, i                              |
namespace ortdl {

/// Whether values can live on `device`: the CPU, CUDA and ROCm.
[[nodiscard]] bool holds_values(at::Device device) noexcept;

/// ONNX Runtime's description of `device`'s memory, made once and kept for the process.
/// \throws c10::ValueError if values cannot live on `device`.
[[nodiscard]] const OrtMemoryInfo* memory_info(at::Device device);

/// PyTorch's device for memory that ONNX Runtime describes by `info`; nothing if it has none.
///
/// Memory that the host can read, pinned memory included, is on the CPU.
[[nodiscard]] std::optional<at::Device> find_device(const OrtMemoryInfo* info);
/// As above. \throws c10::ValueError that names the memory if PyTorch has no device for it.
[[nodiscard]] at::Device device_of(const OrtMemoryInfo* info);

/// Whether DLPack's `type` is memory that the host can read, pinned or not.
[[nodiscard]] constexpr bool is_host(DLDeviceType type) noexcept {
  return type == kDLCPU || type == kDLCUDAHost || type == kDLROCMHost;
}

/// PyTorch's device for memory that DLPack describes by `device`.
/// \throws c10::ValueError that names `device` if this PyTorch has no such device.
[[nodiscard]] at::Device device_of(DLDevice device);

/// PyTorch's name of ROCm's devices: cuda in a build for ROCm, else hip.
[[nodiscard]] at::DeviceType rocm_type();

/// DLPack's name of `device`, on which values can live.
[[nodiscard]] DLDevice dlpack_device(at::Device device) noexcept;

/// \throws c10::ValueError if this PyTorch cannot use `device`: another build, too few devices, or
/// no
///   index.
void require_usable(at::Device device);

}  // namespace ortdl
