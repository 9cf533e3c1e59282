#pragma once

#include <fake_gpu_ep.h>
#include <ortdl/ortdl.h>

#include <string>

/// \file
/// The plug-in execution provider of tests/fake_gpu_ep, on the devices of the fake accelerator.
namespace ortdl::test {

/// The provider under a name of its own: each run is given a stream.
inline constexpr const char* kPlugin = "FakeGpuExecutionProvider";
/// The provider under the name of the one that is made for the accelerator: it is given a stream
/// and PyTorch's allocator for the whole session.
[[nodiscard]] const char* native_provider();

/// Registers both, once for the process. FAKE_GPU_EP names the library.
void register_fake_providers();

/// Options for device number `index`.
[[nodiscard]] Provider on_device(const char* name, int index);

[[nodiscard]] FakeGpuEpCounters provider_counters();
/// Kernel number `index` since the last reset.
[[nodiscard]] FakeGpuEpCompute provider_compute(size_t index);
void reset_provider();

}  // namespace ortdl::test
