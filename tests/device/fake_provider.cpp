#include "fake_provider.h"

#include <dlfcn.h>

#include <cstdlib>

#include "device_test.h"

namespace ortdl::test {
namespace {

const char* library_path() {
  const char* path = std::getenv("FAKE_GPU_EP");
  TORCH_CHECK(path != nullptr, "set FAKE_GPU_EP to the path of the fake provider's library");
  return path;
}

void register_as(const char* name) {
  ::setenv("FAKE_GPU_NAME", name, 1);
  check_status(api().RegisterExecutionProviderLibrary(environment(), name, library_path()));
}

// A function that the provider's library, which ONNX Runtime loaded, exports.
template <typename Function>
Function* exported(const char* name) {
  static void* const library = ::dlopen(library_path(), RTLD_NOW | RTLD_NOLOAD);
  TORCH_CHECK(library != nullptr, "the fake provider is not registered");
  auto* function = reinterpret_cast<Function*>(::dlsym(library, name));
  TORCH_CHECK(function != nullptr, "the fake provider has no ", name);
  return function;
}

}  // namespace

const char* native_provider() {
  return fake::is_amd() ? "ROCMExecutionProvider" : "CUDAExecutionProvider";
}

void register_fake_providers() {
  static const bool done = [] {
    ::setenv("FAKE_GPU_DEVICES", std::to_string(fake::kDevices).c_str(), 1);
    ::setenv("FAKE_GPU_VENDOR", fake::is_amd() ? "amd" : "nvidia", 1);
    register_as(kPlugin);
    register_as(native_provider());
    return true;
  }();
  static_cast<void>(done);
}

Provider on_device(const char* name, int index) {
  StringDict options;
  options.insert("device_id", std::to_string(index));
  return {.name = name, .options = options};
}

FakeGpuEpCounters provider_counters() {
  FakeGpuEpCounters counters{};
  exported<void(FakeGpuEpCounters*)>("fake_gpu_ep_counters")(&counters);
  return counters;
}

FakeGpuEpCompute provider_compute(size_t index) {
  FakeGpuEpCompute compute{};
  TORCH_CHECK(exported<int(size_t, FakeGpuEpCompute*)>("fake_gpu_ep_compute")(index, &compute) == 1,
              "the fake provider was asked for no kernel number ", index);
  return compute;
}

void reset_provider() { exported<void()>("fake_gpu_ep_reset")(); }

}  // namespace ortdl::test
