#include <ortdl/runtime.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "message.h"
#include "target.h"

namespace ortdl::fuzz {
namespace {

constexpr std::array kTargets{&kDlpackImport, &kFromPacked, &kModel, &kSession, &kSessionState};
const Target* chosen = nullptr;

const Target* target_named(std::string_view name) {
  for (const Target* target : kTargets) {
    if (name == target->name) {
      return target;
    }
  }
  return nullptr;
}

}  // namespace
}  // namespace ortdl::fuzz

extern "C" int LLVMFuzzerInitialize(int* /*argc*/, char*** /*argv*/) {
  using ortdl::fuzz::require;
  const char* name = std::getenv("ORTDL_FUZZ_TARGET");
  ortdl::fuzz::chosen = ortdl::fuzz::target_named(name == nullptr ? "" : name);
  require(ortdl::fuzz::chosen != nullptr, "ORTDL_FUZZ_TARGET names a target");
  const char* path = std::getenv("ORTDL_RUNTIME");
  require(path != nullptr, "ORTDL_RUNTIME names a libonnxruntime.so");
  ortdl::load_runtime(path);
  ortdl::fuzz::chosen->begin();
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  ortdl::fuzz::chosen->run({data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return ortdl::fuzz::chosen->is_message ? ortdl::fuzz::mutate_message(data, size, max_size, seed)
                                         : LLVMFuzzerMutate(data, size, max_size);
}
