#pragma once

#include <c10/core/Allocator.h>
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "machine.h"
#include "trace.h"

/// \file
/// A fake accelerator of four devices for a PyTorch without one. Its memory is host memory; its
/// streams run nothing until somebody waits for them; all that it is asked for is traced.
namespace ortdl::test::fake {

/// Give PyTorch the accelerator called `name`, for the rest of the process.
/// \param name "cuda" (devices cuda:0 to cuda:3), "hip" (hip:0 to hip:3, which no released build of
///   PyTorch has, though DLPack and device strings know them), or "rocm" (cuda:0 to cuda:3 that are
///   AMD's, as in a ROCm build of PyTorch).
/// \throws std::invalid_argument for another name.
void install(std::string_view name);

/// PyTorch's type of the devices.
[[nodiscard]] at::DeviceType device_type() noexcept;
/// Whether they are AMD's.
[[nodiscard]] bool is_amd() noexcept;

[[nodiscard]] Trace& trace();
[[nodiscard]] Machine& machine();

/// The device and the streams that a thread uses now.
struct Current {
  c10::DeviceIndex device = 0;
  std::array<c10::StreamId, kDevices> streams{};

  bool operator==(const Current&) const = default;
};
[[nodiscard]] Current& current() noexcept;
[[nodiscard]] Queue& current_queue(c10::DeviceIndex device);

/// Events that are not destroyed yet.
[[nodiscard]] std::atomic<int64_t>& live_events() noexcept;

/// Gives out memory as PyTorch's caching allocator does: a block that was freed is given out again
/// on the stream it was allocated on, at once, unless work of another stream that was recorded as
/// its user is not done. New memory is filled with 0xA5, in the order of that stream.
[[nodiscard]] c10::Allocator& device_allocator();
[[nodiscard]] c10::Allocator& pinned_allocator();
/// Note that `stream` uses `memory`.
void record_use_of(const c10::DataPtr& memory, Queue& queue);
/// Blocks that are not freed yet.
[[nodiscard]] int64_t live_blocks();
/// Give all free memory back; all work must be done.
void release_free_blocks();
/// The device that `pointer` is memory of, or -1.
[[nodiscard]] c10::DeviceIndex device_of_block(const void* pointer);
[[nodiscard]] bool is_pinned(const void* pointer);

namespace detail {
void register_guard(at::DeviceType type);
void register_hooks(at::DeviceType type);
void register_kernels(at::DeviceType type);
}  // namespace detail

}  // namespace ortdl::test::fake
