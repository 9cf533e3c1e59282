#include "accelerator.h"

#include <stdexcept>
#include <string>

namespace ortdl::test::fake {
namespace {

at::DeviceType installed_type = at::kCUDA;
bool installed_amd = false;

}  // namespace

void install(std::string_view name) {
  if (name != "cuda" && name != "hip" && name != "rocm") {
    throw std::invalid_argument("the fake accelerator is cuda, hip or rocm, not '" +
                                std::string(name) + "'");
  }
  installed_type = name == "hip" ? at::kHIP : at::kCUDA;
  installed_amd = name != "cuda";
  detail::register_guard(installed_type);
  detail::register_hooks(installed_type);
  detail::register_kernels(installed_type);
  c10::SetAllocator(installed_type, &device_allocator());
}

at::DeviceType device_type() noexcept { return installed_type; }

bool is_amd() noexcept { return installed_amd; }

// What PyTorch may still call at exit is never destroyed.
Trace& trace() {
  static auto& trace = *new Trace;
  return trace;
}

Machine& machine() {
  static auto& machine = *new Machine;
  return machine;
}

Current& current() noexcept {
  thread_local Current current;
  return current;
}

Queue& current_queue(c10::DeviceIndex device) {
  return machine().queue(device, current().streams.at(static_cast<size_t>(device)));
}

std::atomic<int64_t>& live_events() noexcept {
  static std::atomic<int64_t> count;
  return count;
}

}  // namespace ortdl::test::fake
