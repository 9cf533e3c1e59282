#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <string>
#include <vector>

#include "api.h"
#include "config.h"
#include "factory.h"
#include "fake_gpu_ep.h"
#include "queue.h"
#include "recorder.h"

using fake_gpu::Recorder;

extern "C" {

/// ONNX Runtime's way in.
FAKE_GPU_EP_API OrtStatus* CreateEpFactories(const char* /*registered_name*/,
                                             const OrtApiBase* base, const OrtLogger* /*logger*/,
                                             OrtEpFactory** factories, size_t room,
                                             size_t* count) noexcept {
  try {
    fake_gpu::attach_runtime(*base);
    if (room == 0) {
      throw std::runtime_error("there is no room for a factory");
    }
    factories[0] = &fake_gpu::Factory::create(fake_gpu::Config::from_environment());
    *count = 1;
    return nullptr;
  } catch (const std::exception& error) {
    return base->GetApi(1)->CreateStatus(ORT_EP_FAIL, error.what());
  }
}

FAKE_GPU_EP_API OrtStatus* ReleaseEpFactory(OrtEpFactory* factory) noexcept {
  static_cast<fake_gpu::Factory*>(factory)->retire();
  return nullptr;
}

void fake_gpu_ep_counters(FakeGpuEpCounters* counters) noexcept {
  *counters = Recorder::instance().counters();
}

int fake_gpu_ep_compute(size_t index, FakeGpuEpCompute* compute) noexcept {
  const std::vector<FakeGpuEpCompute> computes = Recorder::instance().computes();
  if (index >= computes.size()) {
    return 0;
  }
  *compute = computes[index];
  return 1;
}

int fake_gpu_ep_last_compute(FakeGpuEpCompute* compute) noexcept {
  const std::vector<FakeGpuEpCompute> computes = Recorder::instance().computes();
  if (computes.empty()) {
    return 0;
  }
  *compute = computes.back();
  return 1;
}

size_t fake_gpu_ep_log(char* text, size_t size) noexcept {
  const std::string whole = Recorder::instance().text();
  if (size > 0) {
    const size_t length = std::min(whole.size(), size - 1);
    std::memcpy(text, whole.data(), length);
    text[length] = '\0';
  }
  return whole.size();
}

void fake_gpu_ep_reset() noexcept { Recorder::instance().reset(); }

void fake_gpu_ep_run_pending() noexcept { fake_gpu::run_own_queues(); }

}  // extern "C"
