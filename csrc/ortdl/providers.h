#pragma once

#include <ATen/core/Dict.h>
#include <c10/core/Stream.h>
#include <ortdl/runtime.h>

#include <optional>
#include <string>
#include <vector>

/// \file
/// Execution providers: which there are, and how a session is given one.
namespace ortdl {

using StringDict = c10::Dict<std::string, std::string>;

inline constexpr const char* kCpuProvider = "CPUExecutionProvider";

/// An execution provider and its options, as onnxruntime names them.
struct Provider {
  std::string name;
  StringDict options;
};

/// What the providers of a session were told of PyTorch, and what is known of them.
struct ProviderUse {
  /// The first one that works on an accelerator that PyTorch can use; empty if none does.
  std::string name = {};
  /// Its accelerator.
  std::optional<at::Device> device = std::nullopt;
  /// The stream on which they queue their work, if it is one for the whole session.
  std::optional<c10::Stream> stream = std::nullopt;
  /// Whether device memory comes from PyTorch's caching allocator.
  bool torch_memory = false;
};

/// The execution providers that the runtime in use offers, registered plug-ins included.
[[nodiscard]] std::vector<std::string> available_providers();

/// The type of the accelerators that registered plug-ins work on and PyTorch can use, if any: their
/// providers may change the current device even where a session runs on the CPU.
[[nodiscard]] std::optional<at::DeviceType> plugin_accelerator();

/// The device of the plug-in `name` whose memory is `device`'s, or null.
[[nodiscard]] const OrtEpDevice* find_ep_device(const std::string& name, at::Device device);

/// Let sessions made from `options` run on `providers`, in order of preference; the CPU's is always
/// last.
///
/// The CUDA and ROCm providers are given PyTorch's caching allocator, and then work on the
/// accelerator's default stream; with `user_compute_stream` among their options, or `parallel`, or
/// after TensorRT's, a stream instead, since ONNX Runtime takes no allocator beside one. TensorRT's
/// is given a stream of PyTorch's. Options that name others win.
/// \param parallel Whether the session runs nodes in parallel, on threads of its own.
/// \throws c10::ValueError if the runtime does not offer one, listing those it does, if this
///   PyTorch lacks its device, or if two of them cannot work in one order.
[[nodiscard]] ProviderUse append_providers(OrtSessionOptions* options,
                                           const std::vector<Provider>& providers,
                                           bool parallel = false);

}  // namespace ortdl
