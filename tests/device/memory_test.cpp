#include <ortdl/memory.h>

#include <limits>
#include <thread>

#include "device_test.h"

// PyTorch's devices, ONNX Runtime's memory infos and DLPack's devices, each to each.
namespace ortdl::test {
namespace {

using InfoHandle = std::unique_ptr<OrtMemoryInfo, Releaser<&OrtApi::ReleaseMemoryInfo>>;

constexpr uint32_t kNvidia = 0x10DE;
constexpr uint32_t kAmd = 0x1002;
constexpr uint32_t kIntel = 0x8086;

const char* memory_name() { return fake::is_amd() ? "Hip" : "Cuda"; }
uint32_t vendor() { return fake::is_amd() ? kAmd : kNvidia; }
DLDeviceType dl_type() { return fake::is_amd() ? kDLROCM : kDLCUDA; }

InfoHandle info_of(uint32_t vendor, int index,
                   OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_GPU,
                   OrtDeviceMemoryType memory = OrtDeviceMemoryType_DEFAULT) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo_V2("Device", type, vendor, index, memory, 0,
                                         OrtDeviceAllocator, &info));
  return InfoHandle(info);
}

InfoHandle named_info(const char* name, int index) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo(name, OrtDeviceAllocator, index, OrtMemTypeDefault, &info));
  return InfoHandle(info);
}

class DeviceMemoryTest : public DeviceTest {};

TEST_F(DeviceMemoryTest, DescribesEachDeviceToOnnxRuntime) {
  for (int index = 0; index < fake::kDevices; ++index) {
    const OrtMemoryInfo* info = memory_info(device(index));
    EXPECT_EQ(memory_info(device(index)), info) << "made once";
    const char* name = nullptr;
    check_status(api().MemoryInfoGetName(info, &name));
    EXPECT_STREQ(name, memory_name());
    int id = -1;
    check_status(api().MemoryInfoGetId(info, &id));
    EXPECT_EQ(id, index);
    OrtMemoryInfoDeviceType type = OrtMemoryInfoDeviceType_CPU;
    api().MemoryInfoGetDeviceType(info, &type);
    EXPECT_EQ(type, OrtMemoryInfoDeviceType_GPU);
    EXPECT_EQ(api().MemoryInfoGetVendorId(info), vendor());
    EXPECT_EQ(api().MemoryInfoGetDeviceMemType(info), OrtDeviceMemoryType_DEFAULT);
    EXPECT_EQ(device_of(info), device(index));
  }
  EXPECT_EQ(taken(), Lines{}) << "no accelerator is asked";
}

TEST_F(DeviceMemoryTest, MakesOneInfoForThreadsThatAskAtOnce) {
  constexpr int kFree = 100;  // an index that no other test asks for
  std::vector<const OrtMemoryInfo*> infos(8);
  std::vector<std::thread> threads;
  for (const OrtMemoryInfo*& info : infos) {
    threads.emplace_back([&info] { info = memory_info(device(kFree)); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(infos, std::vector<const OrtMemoryInfo*>(8, memory_info(device(kFree))));
}

TEST_F(DeviceMemoryTest, ReadsOnnxRuntimesDescriptions) {
  EXPECT_EQ(device_of(info_of(vendor(), 3).get()), device(3));
  EXPECT_EQ(device_of(named_info(memory_name(), 2).get()), device(2));
  EXPECT_EQ(device_of(named_info(fake::is_amd() ? "HipPinned" : "CudaPinned", 0).get()), at::kCPU);
  EXPECT_EQ(device_of(info_of(vendor(), 1, OrtMemoryInfoDeviceType_GPU,
                              OrtDeviceMemoryType_HOST_ACCESSIBLE)
                          .get()),
            at::kCPU);
}

TEST_F(DeviceMemoryTest, RefusesMemoryOfOtherVendorsByName) {
  for (const auto& info : {info_of(kIntel, 1), info_of(vendor(), 1, OrtMemoryInfoDeviceType_NPU)}) {
    expect_error<c10::ValueError>([&info] { return device_of(info.get()); },
                                  {"'Device'", "device 1", "copy the value to the CPU"});
  }
}

TEST_F(DeviceMemoryTest, KeepsNvidiasMemoryFromARocmBuild) {
  const auto nvidia = named_info("Cuda", 1);
  const auto amd = named_info("Hip", 1);
  EXPECT_EQ(device_of(fake::is_amd() ? amd.get() : nvidia.get()), device(1));
  if (fake::is_amd() && fake::device_type() == at::kCUDA) {
    expect_error<c10::ValueError>([&] { return device_of(nvidia.get()); }, {"'Cuda'", "device 1"});
  } else {
    EXPECT_EQ(device_of(nvidia.get()), at::Device("cuda:1"));
    EXPECT_EQ(device_of(amd.get()), at::Device("hip:1"));
  }
}

TEST_F(DeviceMemoryTest, NamesEachDeviceToDlpackAndBack) {
  for (int index = 0; index < fake::kDevices; ++index) {
    const DLDevice named = dlpack_device(device(index));
    EXPECT_EQ(named.device_type, dl_type());
    EXPECT_EQ(named.device_id, index);
    EXPECT_EQ(device_of(named), device(index));
  }
  EXPECT_EQ(dlpack_device(at::kCPU).device_type, kDLCPU);
}

TEST_F(DeviceMemoryTest, ReadsPinnedMemoryAsTheCpus) {
  for (const DLDeviceType type : {kDLCUDAHost, kDLROCMHost}) {
    EXPECT_EQ(device_of(DLDevice{.device_type = type, .device_id = 0}), at::kCPU);
    expect_error<c10::ValueError>(
        [type] { return device_of(DLDevice{.device_type = type, .device_id = 1}); },
        {"index 1", "host memory has the index 0"});
  }
}

TEST_F(DeviceMemoryTest, ReadsManagedMemoryAsCudas) {
  const DLDevice managed{.device_type = kDLCUDAManaged, .device_id = 2};
  if (fake::is_amd()) {
    expect_error<c10::ValueError>([&] { return device_of(managed); }, {});
  } else {
    EXPECT_EQ(device_of(managed), device(2));
  }
}

TEST_F(DeviceMemoryTest, RefusesDlpacksDevicesOfAnotherAccelerator) {
  const DLDevice other{.device_type = fake::is_amd() ? kDLCUDA : kDLROCM, .device_id = 0};
  if (fake::is_amd() && fake::device_type() == at::kCUDA) {
    expect_error<c10::ValueError>([&] { return device_of(other); }, {"device type 2", "the CPU"});
  } else {
    expect_error<c10::ValueError>([&] { return device_of(other); },
                                  {"built without", fake::is_amd() ? "cuda:0" : "hip:0"});
  }
  for (const DLDeviceType type : {kDLOneAPI, kDLMetal, kDLWebGPU, kDLVulkan, kDLExtDev}) {
    expect_error<c10::ValueError>(
        [type] { return device_of(DLDevice{.device_type = type, .device_id = 0}); },
        {"device type " + std::to_string(type)});
  }
}

TEST_F(DeviceMemoryTest, RefusesAnIndexThatNoDeviceHas) {
  expect_error<c10::ValueError>(
      [] { return device_of(DLDevice{.device_type = dl_type(), .device_id = 4}); },
      {"4 such devices"});
  for (const int index : {-1, 128, 1 << 20, std::numeric_limits<int>::min()}) {
    expect_error<c10::ValueError>(
        [index] { return device_of(DLDevice{.device_type = dl_type(), .device_id = index}); },
        {"cannot have the index " + std::to_string(index)});
  }
  expect_error<c10::ValueError>([] { return require_usable(device(4)); }, {"4 such devices"});
  require_usable(device(3));
  require_usable(at::kCPU);
}

}  // namespace
}  // namespace ortdl::test
