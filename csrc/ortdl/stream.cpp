#include <c10/core/DeviceGuard.h>
#include <c10/core/Event.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <ortdl/stream.h>

#include <bit>

namespace ortdl {

using c10::impl::VirtualGuardImpl;

c10::Stream current_stream(at::Device device) {
  require_usable(device);
  return VirtualGuardImpl(device.type()).getStream(device);
}

c10::Stream stream_of_handle(at::Device device, uintptr_t handle) {
  if (handle == 0) {
    return VirtualGuardImpl(device.type()).getDefaultStream(device);
  }
  // The stream that PyTorch works on now lives as long as PyTorch.
  if (const c10::Stream current = current_stream(device); handle_of(current) == handle) {
    return current;
  }
  // PyTorch's id of a stream that it did not make is the stream's handle, which is even; the ids of
  // its own streams are odd (c10/cuda/CUDAStream.cpp).
  return c10::Stream(c10::Stream::UNSAFE, device, std::bit_cast<c10::StreamId>(handle));
}

uintptr_t handle_of(c10::Stream stream) {
  return reinterpret_cast<uintptr_t>(stream.native_handle());
}

void order(c10::Stream earlier, c10::Stream later) {
  if (earlier == later ||
      (earlier.device() == later.device() && handle_of(earlier) == handle_of(later))) {
    return;
  }
  TORCH_CHECK(!later.is_capturing() || earlier.is_capturing(), "the work that ", later,
              " captures into a graph would have to wait for ", earlier,
              ", which is not part of the capture: hand the value over before the capture begins, "
              "or produce it on a stream that takes part in it");
  TORCH_CHECK(!earlier.is_capturing() || later.is_capturing() || handle_of(later) != 0,
              "the default stream of ", later.device(), " would have to wait for ", earlier,
              ", which is being captured into a graph, and cannot take part in that: hand over to "
              "the stream that captures, by its handle");
  // An event restores the device itself, but not where it fails.
  const c10::DeviceGuard restored(earlier.device());
  c10::Event done(earlier.device_type());
  done.record(earlier);
  done.block(later);
}

void require_no_capture(c10::Stream stream) {
  TORCH_CHECK(!stream.is_capturing(), "the host would have to wait for ", stream,
              ", which is being captured into a graph: do this before the capture begins or after "
              "it ended");
}

void require_no_capture(at::Device from, at::Device to) {
  for (const at::Device device : {from, to}) {
    if (!device.is_cpu()) {
      require_no_capture(current_stream(device));
    }
  }
}

void wait_on_host(c10::Stream stream) {
  require_no_capture(stream);
  const c10::DeviceGuard restored(stream.device());
  stream.synchronize();
}

bool record_use(const c10::DataPtr& memory, c10::Stream stream) {
  if (memory.get_deleter() != c10::GetAllocator(stream.device_type())->raw_deleter()) {
    return false;
  }
  const c10::DeviceGuard restored(stream.device());
  VirtualGuardImpl(stream.device_type()).recordDataPtrOnStream(memory, stream);
  return true;
}

}  // namespace ortdl
