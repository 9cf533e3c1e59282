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

InfoHandle gpu_info(OrtDeviceMemoryType type) {
  OrtMemoryInfo* info = nullptr;
  check_status(api().CreateMemoryInfo_V2("SomeGpu", OrtMemoryInfoDeviceType_GPU, 0x10DE, 1, type, 0,
                                         OrtDeviceAllocator, &info));
  return InfoHandle(info);
}

TEST_F(MemoryTest, KnowsTheCpu) {
  const OrtMemoryInfo* info = memory_info(at::kCPU);
  EXPECT_EQ(memory_info(at::Device("cpu")), info);
  EXPECT_EQ(device_of(info), at::Device(at::kCPU));
}

TEST_F(MemoryTest, RefusesOtherDevices) {
  for (const char* name : {"cuda:1", "meta", "xpu", "mps"}) {
    expect_error<c10::ValueError>([name] { return memory_info(at::Device(name)); },
                                  {name, "CPU memory only", "tensor.cpu()"});
  }
}

TEST_F(MemoryTest, RefusesDeviceMemoryByName) {
  for (const char* name : {"Cuda", "Hip"}) {
    const InfoHandle info = named_info(name, 3);
    expect_error<c10::ValueError>([&info] { return device_of(info.get()); },
                                  {name, "device 3", "copy"});
  }
  const InfoHandle gpu = gpu_info(OrtDeviceMemoryType_DEFAULT);
  expect_error<c10::ValueError>([&gpu] { return device_of(gpu.get()); }, {"SomeGpu", "device 1"});
}

TEST_F(MemoryTest, ReadsHostMemoryAsTheCpus) {
  EXPECT_EQ(device_of(gpu_info(OrtDeviceMemoryType_HOST_ACCESSIBLE).get()), at::kCPU);
  EXPECT_EQ(device_of(named_info("CudaPinned", 0).get()), at::kCPU);
}

TEST_F(MemoryTest, MakesNoValueOfDeviceMemory) {
  const InfoHandle info = named_info("Cuda", 2);
  float memory = 0;
  constexpr int64_t size = 1;
  ::OrtValue* value = nullptr;
  check_status(api().CreateTensorWithDataAsOrtValue(info.get(), &memory, sizeof memory, &size, 1,
                                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &value));
  ValueHandle handle(value);
  expect_error<c10::ValueError>([&handle] { return held(std::move(handle)); },
                                {"'Cuda'", "device 2"});
}

}  // namespace
}  // namespace ortdl::test
