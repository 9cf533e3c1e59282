#include "factory.h"

#include <algorithm>
#include <initializer_list>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "data_transfer.h"
#include "ep.h"
#include "memory.h"
#include "numbers.h"
#include "stream.h"

namespace fake_gpu {
namespace {

// Under this name each OrtEpDevice says which of the devices it is.
constexpr const char* kOrdinal = "device_id";
// The PCI number of device 0; any will do.
constexpr uint32_t kFirstModel = 0xFA00;

KeyValuePairs pairs(std::initializer_list<std::pair<const char*, std::string>> entries) {
  OrtKeyValuePairs* made = nullptr;
  ort().CreateKeyValuePairs(&made);
  for (const auto& [key, value] : entries) {
    ort().AddKeyValuePair(made, key, value.c_str());
  }
  return KeyValuePairs(made);
}

}  // namespace

Factory& Factory::create(Config config) {
  static std::mutex mutex;
  static auto& all = *new std::vector<std::unique_ptr<Factory>>;
  const std::lock_guard lock(mutex);
  return *all.emplace_back(new Factory(std::move(config)));
}

void Factory::retire() noexcept {
  memory_.clear();
  hardware_.clear();
}

Factory::Factory(Config config) noexcept : OrtEpFactory{}, config_(std::move(config)) {
  ort_version_supported = ORT_API_VERSION;
  GetName = get_name;
  GetVendor = get_vendor;
  GetVendorId = get_vendor_id;
  GetVersion = get_version;
  GetSupportedDevices = get_devices;
  CreateEp = create_ep;
  ReleaseEp = release_ep;
  CreateAllocator = create_allocator;
  ReleaseAllocator = release_allocator;
  CreateDataTransfer = create_data_transfer;
  IsStreamAware = is_stream_aware;
  CreateSyncStreamForDevice = create_stream;
}

const char* Factory::get_name(const OrtEpFactory* self) noexcept {
  return from(self).config_.ep_name.c_str();
}

const char* Factory::get_vendor(const OrtEpFactory* self) noexcept {
  return from(self).config_.vendor_name.c_str();
}

uint32_t Factory::get_vendor_id(const OrtEpFactory* self) noexcept {
  return from(self).config_.vendor_id;
}

const char* Factory::get_version(const OrtEpFactory*) noexcept { return "0.1.0"; }

OrtStatus* Factory::get_devices(OrtEpFactory* self, const OrtHardwareDevice* const*, size_t,
                                OrtEpDevice** out, size_t room, size_t* count) noexcept {
  return guarded([&] {
    Factory& factory = from(self);
    const size_t wanted = std::min<size_t>(factory.config_.devices, room);
    for (*count = 0; *count < wanted; ++*count) {
      out[*count] = factory.add_device(static_cast<uint32_t>(*count));
    }
  });
}

OrtEpDevice* Factory::add_device(uint32_t ordinal) {
  OrtHardwareDevice* hardware = nullptr;
  check(ep_api().CreateHardwareDevice(OrtHardwareDeviceType_GPU, config_.vendor_id,
                                      kFirstModel + ordinal, config_.vendor_name.c_str(),
                                      pairs({{"is_virtual", "1"}}).get(), &hardware));
  hardware_.emplace_back(hardware);
  OrtMemoryInfo* memory = nullptr;
  check(ort().CreateMemoryInfo_V2(config_.memory_name.c_str(), OrtMemoryInfoDeviceType_GPU,
                                  config_.vendor_id, static_cast<int32_t>(ordinal),
                                  OrtDeviceMemoryType_DEFAULT, 0, OrtDeviceAllocator, &memory));
  memory_.emplace_back(memory);
  OrtEpDevice* device = nullptr;
  check(ep_api().CreateEpDevice(this, hardware, pairs({{kOrdinal, std::to_string(ordinal)}}).get(),
                                nullptr, &device));
  check(ep_api().EpDevice_AddAllocatorInfo(device, memory));
  return device;
}

OrtStatus* Factory::create_ep(OrtEpFactory* self, const OrtHardwareDevice* const*,
                              const OrtKeyValuePairs* const* metadata, size_t,
                              const OrtSessionOptions* options, const OrtLogger*,
                              OrtEp** out) noexcept {
  return guarded([&] {
    // A session has one device: of several, ONNX Runtime lists the one to use first.
    const int device = parse_number<int>(ort().GetKeyValue(metadata[0], kOrdinal)).value_or(0);
    *out = std::make_unique<Ep>(from(self).config_.ep_name, device, *options).release();
  });
}

void Factory::release_ep(OrtEpFactory*, OrtEp* ep) noexcept {
  const std::unique_ptr<Ep> owned(static_cast<Ep*>(ep));
}

OrtStatus* Factory::create_allocator(OrtEpFactory*, const OrtMemoryInfo* info,
                                     const OrtKeyValuePairs*, OrtAllocator** out) noexcept {
  return guarded([&] { *out = std::make_unique<Allocator>(*info, ExternalSource{}).release(); });
}

void Factory::release_allocator(OrtEpFactory*, OrtAllocator* allocator) noexcept {
  const std::unique_ptr<Allocator> owned(static_cast<Allocator*>(allocator));
}

OrtStatus* Factory::create_data_transfer(OrtEpFactory* self, OrtDataTransferImpl** out) noexcept {
  return guarded(
      [&] { *out = std::make_unique<DataTransfer>(from(self).config_.vendor_id).release(); });
}

bool Factory::is_stream_aware(const OrtEpFactory*) noexcept { return true; }

OrtStatus* Factory::create_stream(OrtEpFactory*, const OrtMemoryDevice* memory,
                                  const OrtKeyValuePairs* options,
                                  OrtSyncStreamImpl** out) noexcept {
  return guarded([&] {
    constexpr const char* kOption = "user_compute_stream";
    const char* text = options == nullptr ? nullptr : ort().GetKeyValue(options, kOption);
    void* given = parse_address(kOption, text);
    *out = make_stream(ordinal_of(memory), given == nullptr ? std::nullopt : std::optional(given))
               .release();
  });
}

}  // namespace fake_gpu
