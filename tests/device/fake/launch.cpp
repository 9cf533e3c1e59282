#include <exception>

#include "accelerator.h"

using ortdl::test::fake::current;
using ortdl::test::fake::machine;
using ortdl::test::fake::trace;

/// CUDA's function, as far as a plug-in execution provider needs it to put its work in line: `call`
/// waits in the stream with the handle `stream`, 0 being the current device's default stream.
/// \return 0, or CUDA's code for an invalid handle.
extern "C" __attribute__((visibility("default"))) int cudaLaunchHostFunc(void* stream,
                                                                         void (*call)(void*),
                                                                         void* data) noexcept try {
  auto& queue = machine().queue_of_handle(reinterpret_cast<uintptr_t>(stream), current().device);
  trace().call("cudaLaunchHostFunc", queue.name);
  machine().enqueue(queue, [call, data] { call(data); });
  return 0;
} catch (const std::exception&) {
  constexpr int kInvalidResourceHandle = 400;
  return kInvalidResourceHandle;
}
