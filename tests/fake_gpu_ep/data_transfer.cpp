#include "data_transfer.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

#include "memory.h"
#include "queue.h"
#include "recorder.h"

namespace fake_gpu {
namespace {

bool is_host(const OrtMemoryDevice* memory) noexcept {
  return ep_api().MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_CPU;
}

uint64_t FakeGpuEpCounters::* counter_of(int32_t source, int32_t destination) noexcept {
  if (source < 0) {
    return &FakeGpuEpCounters::host_to_device;
  }
  return destination < 0 ? &FakeGpuEpCounters::device_to_host
                         : &FakeGpuEpCounters::device_to_device;
}

void copy(const OrtValue* source, OrtValue* destination, OrtSyncStream* stream) {
  const void* from = nullptr;
  check(ort().GetTensorData(source, &from));
  void* to = nullptr;
  check(ort().GetTensorMutableData(destination, &to));
  size_t bytes = 0;
  check(ort().GetTensorSizeInBytes(source, &bytes));
  const int32_t source_device = ordinal_of(ep_api().Value_GetMemoryDevice(source));
  const int32_t destination_device = ordinal_of(ep_api().Value_GetMemoryDevice(destination));
  Recorder::instance().log("copy " + std::to_string(bytes) + " bytes, " + place(source_device) +
                               " to " + place(destination_device) +
                               (stream == nullptr ? ", no stream" : ", in stream"),
                           counter_of(source_device, destination_device));
  if (bytes == 0) {
    return;
  }
  if (stream == nullptr) {
    std::memmove(to, from, bytes);
    return;
  }
  const auto queue =
      queue_of(std::max(source_device, destination_device), ort().SyncStream_GetHandle(stream));
  if (source_device < 0) {
    // CUDA stages pageable memory too: the caller may change it once the call is over.
    const auto* first = static_cast<const std::byte*>(from);
    queue->submit([to, staged = std::vector<std::byte>(first, first + bytes)] {
      std::memcpy(to, staged.data(), staged.size());
    });
  } else {
    queue->submit([to, from, bytes] { std::memmove(to, from, bytes); });
  }
}

}  // namespace

DataTransfer::DataTransfer(uint32_t vendor_id) noexcept
    : OrtDataTransferImpl{}, vendor_id_(vendor_id) {
  ort_version_supported = ORT_API_VERSION;
  Release = release;
  CanCopy = can_copy;
  CopyTensors = copy_tensors;
}

void DataTransfer::release(OrtDataTransferImpl* self) noexcept {
  const std::unique_ptr<DataTransfer> owned(static_cast<DataTransfer*>(self));
}

bool DataTransfer::can_copy(const OrtDataTransferImpl* self, const OrtMemoryDevice* source,
                            const OrtMemoryDevice* destination) noexcept {
  const auto& transfer = *static_cast<const DataTransfer*>(self);
  return (transfer.is_ours(source) && (transfer.is_ours(destination) || is_host(destination))) ||
         (is_host(source) && transfer.is_ours(destination));
}

OrtStatus* DataTransfer::copy_tensors(OrtDataTransferImpl*, const OrtValue** sources,
                                      OrtValue** destinations, OrtSyncStream** streams,
                                      size_t count) noexcept {
  return guarded([&] {
    for (size_t i = 0; i < count; ++i) {
      copy(sources[i], destinations[i], streams == nullptr ? nullptr : streams[i]);
    }
  });
}

bool DataTransfer::is_ours(const OrtMemoryDevice* memory) const noexcept {
  return ep_api().MemoryDevice_GetDeviceType(memory) == OrtMemoryInfoDeviceType_GPU &&
         ep_api().MemoryDevice_GetVendorId(memory) == vendor_id_;
}

}  // namespace fake_gpu
