#include <ortdl/memory.h>

#include "support.h"

namespace ortdl::test {
namespace {

class MemoryTest : public CountedTest {};

using InfoHandle = std::unique_ptr<OrtMemoryInfo, Releaser<&OrtApi::ReleaseMemoryInfo>>;

InfoHandle named_info(const char* name, int index) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo(name, OrtDeviceAllocator, index, OrtMemTypeDefault, &info));
  return InfoHandle(info);
}

InfoHandle gpu_info(OrtDeviceMemoryType type, uint32_t vendor = 0x10DE) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo_V2("SomeGpu", OrtMemoryInfoDeviceType_GPU, vendor, 1, type, 0,
                                         OrtDeviceAllocator, &info));
  return InfoHandle(info);
}

TEST_F(MemoryTest, KnowsTheCpu) {
  const OrtMemoryInfo* info = memory_info(at::kCPU);
  EXPECT_EQ(memory_info(at::Device("cpu")), info);
  EXPECT_EQ(device_of(info), at::Device(at::kCPU));
}

TEST_F(MemoryTest, RefusesOtherDevices) {
  for (const char* name : {"meta", "xpu:0", "mps"}) {
    EXPECT_FALSE(holds_values(at::Device(name)));
    expect_error<c10::ValueError>([name] { return memory_info(at::Device(name)); },
                                  {name, "CPU, CUDA and ROCm memory only", "tensor.cpu()"});
  }
}

TEST_F(MemoryTest, KeepsKindAndIndexOfAcceleratorMemory) {
  EXPECT_EQ(device_of(memory_info(at::Device("cuda:1"))), at::Device("cuda:1"));
  EXPECT_EQ(device_of(memory_info(at::Device("hip:2"))), at::Device("hip:2"));
  EXPECT_EQ(memory_info(at::Device("cuda:1")), memory_info(at::Device("cuda:1")));
  EXPECT_EQ(device_of(named_info("Cuda", 3).get()), at::Device("cuda:3"));
  EXPECT_EQ(device_of(named_info("Hip", 3).get()), at::Device("hip:3"));
}

TEST_F(MemoryTest, RefusesTheMemoryOfOtherMakersByName) {
  const InfoHandle info = gpu_info(OrtDeviceMemoryType_DEFAULT, 0x8086);
  expect_error<c10::ValueError>([&info] { return device_of(info.get()); },
                                {"SomeGpu", "device 1", "copy"});
}

TEST_F(MemoryTest, RefusesIndicesThatNoDeviceHas) {
  expect_error<c10::ValueError>([] { return device_of(named_info("Cuda", 128).get()); },
                                {"cuda", "128"});
}

TEST_F(MemoryTest, ReadsHostMemoryAsTheCpus) {
  EXPECT_EQ(device_of(gpu_info(OrtDeviceMemoryType_HOST_ACCESSIBLE).get()), at::kCPU);
  EXPECT_EQ(device_of(named_info("CudaPinned", 0).get()), at::kCPU);
}

TEST_F(MemoryTest, MakesNoValueOfMemoryThatThisPyTorchCannotUse) {
  const InfoHandle info = named_info("Cuda", 2);
  float memory = 0;
  constexpr int64_t size = 1;
  ::OrtValue* value = nullptr;
  check_status(api().CreateTensorWithDataAsOrtValue(info.get(), &memory, sizeof memory, &size, 1,
                                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  ValueHandle handle(value);
  expect_error<c10::ValueError>([&handle] { return held(std::move(handle)); },
                                {"cuda:2", "built without"});
}

}  // namespace
}  // namespace ortdl::test
