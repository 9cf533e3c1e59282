#pragma once

#include <cstddef>
#include <span>

#include "check.h"

/// \file
/// The fuzz targets. One program has them all, and ORTDL_FUZZ_TARGET names the one that it runs.
namespace ortdl::fuzz {

struct Target {
  const char* name;
  /// Called once, when ONNX Runtime is loaded.
  void (*begin)();
  void (*run)(Input input);
  /// Whether the input is a byte and then a protobuf message, which is mutated as such.
  bool is_message;
};

extern const Target kDlpackImport;
extern const Target kFromPacked;
extern const Target kModel;
extern const Target kSession;
extern const Target kSessionState;

}  // namespace ortdl::fuzz

/// What libFuzzer, or the replay in its place, calls and offers.
extern "C" {
int LLVMFuzzerInitialize(int* argc, char*** argv);
int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);
size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned int seed);
size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
}
