#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "call.h"
#include "stream.h"

/// \file
/// What a test asks of the emulator itself, through ctypes: tests/cuda/emulator.py.
using namespace emulator;

extern "C" {

/// Lets the `nth` next call of `name` fail with `error`; with `nth` 0 none does.
void cuda_emulator_fail(const char* name, unsigned nth, int error) {
  const Lock lock = lock_machine();
  fail(name, nth, static_cast<cudaError_t>(error));
}

/// Forgets the trace and every failure that was asked for.
void cuda_emulator_reset() {
  const Lock lock = lock_machine();
  reset_calls();
}

/// Writes the trace, ended by a zero, to `text` as far as `size` goes.
/// \returns how many bytes it needs.
std::size_t cuda_emulator_trace(char* text, std::size_t size) {
  const Lock lock = lock_machine();
  const std::string lines = trace();
  if (size > 0) {
    const std::size_t written = std::min(size - 1, lines.size());
    std::memcpy(text, lines.data(), written);
    text[written] = '\0';
  }
  return lines.size() + 1;
}

/// How much work is queued on a stream of the current device, or -1 if there is no such stream.
long cuda_emulator_pending(cudaStream_t handle) {
  const Lock lock = lock_machine();
  const auto stream = find_stream(handle);
  return stream == nullptr ? -1 : static_cast<long>(stream->pending());
}

/// Lets the device do what is queued on a stream, as it might at any time without being asked.
void cuda_emulator_run(cudaStream_t handle) {
  Lock lock = lock_machine();
  if (const auto stream = find_stream(handle)) {
    end_of(stream).reach(lock);
  }
}

}  // extern "C"
