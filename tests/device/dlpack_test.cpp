#include <ortdl/dlpack.h>

#include <algorithm>

#include "producer.h"

// DLPack structs of device memory.
namespace ortdl::test {
namespace {

class DeviceDlpackTest : public DeviceTest {};

TEST_F(DeviceDlpackTest, ExportsTheMemoryOfEachDevice) {
  for (int index = 0; index < fake::kDevices; ++index) {
    const at::Tensor tensor = counting(index, 6).view({2, 3});
    const ValuePtr value = Value::from_tensor(tensor);
    static_cast<void>(taken());
    const ManagedTensor exported(to_dlpack_versioned(value));
    EXPECT_EQ(exported.tensor().data, tensor.data_ptr());
    EXPECT_EQ(exported.tensor().device.device_type, fake::is_amd() ? kDLROCM : kDLCUDA);
    EXPECT_EQ(exported.tensor().device.device_id, index);
    EXPECT_EQ(at::IntArrayRef(exported.tensor().strides, 2), at::IntArrayRef({3, 1}));
    const ManagedTensor legacy(to_dlpack_legacy(value));
    EXPECT_EQ(legacy.tensor().device.device_id, index);
    EXPECT_EQ(taken(), Lines{}) << "an export orders nothing by itself";
  }
}

TEST_F(DeviceDlpackTest, AnExportKeepsTheMemory) {
  at::Tensor tensor = counting(1);
  auto exported = std::make_unique<ManagedTensor>(to_dlpack_versioned(Value::from_tensor(tensor)));
  static_cast<void>(taken());
  tensor.reset();
  EXPECT_EQ(taken(), Lines{});
  exported.reset();
  EXPECT_EQ(taken(), (Lines{"free(s1.0, 16 bytes)"}));
}

TEST_F(DeviceDlpackTest, SharesTheMemoryOfEachDeviceWhateverDeviceIsCurrent) {
  for (int index = 0; index < fake::kDevices; ++index) {
    Producer producer(index);
    fake::current().device = static_cast<at::DeviceIndex>((index + 1) % fake::kDevices);
    const fake::Current before = fake::current();
    static_cast<void>(taken());
    const ValuePtr value = producer.lend();
    EXPECT_EQ(value->data(), producer.data.data());
    EXPECT_EQ(value->device(), device(index));
    const at::Tensor tensor = value->to_tensor();
    EXPECT_EQ(tensor.data_ptr(), producer.data.data());
    EXPECT_EQ(tensor.device(), device(index));
    EXPECT_EQ(taken(), Lines{});
    EXPECT_EQ(fake::current(), before);
    fake::current().device = 0;
  }
}

TEST_F(DeviceDlpackTest, ComesBackThroughItself) {
  for (int index = 0; index < fake::kDevices; ++index) {
    const at::Tensor tensor = counting(index);
    const ValuePtr value = Value::from_tensor(tensor);
    const ValuePtr back = from_dlpack(ManagedTensor(to_dlpack_versioned(value)), Copy::kNever);
    EXPECT_EQ(back->data(), tensor.data_ptr());
    EXPECT_EQ(back->device(), device(index));
  }
}

TEST_F(DeviceDlpackTest, CopiesOnTheDeviceInTheOrderOfItsStream) {
  Producer producer(2);
  const Using current(new_stream(2));
  const ValuePtr value = producer.lend(Copy::kAlways);
  EXPECT_NE(value->data(), producer.data.data());
  EXPECT_EQ(value->device(), device(2));
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(2)", "allocate(s2.1, 16 bytes)", "uncheckedSetDevice(0)",
                   "copy_(from s2.1 to s2.1)", "exchangeDevice(2)", "synchronizeStream(s2.1)",
                   "uncheckedSetDevice(0)", "released"}));
  EXPECT_TRUE(at::equal(value->to_tensor().cpu(), at::arange(4, at::kFloat)));
}

TEST_F(DeviceDlpackTest, GathersStridesOnTheDevice) {
  Producer producer(1, {3, 4});
  producer.managed.dl_tensor.byte_offset = 11 * sizeof(float);
  producer.strides = {-4, -1};
  const ValuePtr value = producer.lend(Copy::kIfNeeded);
  EXPECT_EQ(value->device(), device(1));
  EXPECT_TRUE(
      at::equal(value->to_tensor().cpu(), at::arange(12, at::kFloat).view({3, 4}).flip({0, 1})));
}

TEST_F(DeviceDlpackTest, RefusesADeviceThatIsNotThereAndReleasesNothing) {
  for (const int index : {-1, 4, 200}) {
    Producer producer(index);
    expect_error<c10::ValueError>([&] { return producer.lend(); }, {});
    EXPECT_EQ(taken(), Lines{});
  }
  Producer pinned(1);
  pinned.managed.dl_tensor.device.device_type = kDLCUDAHost;
  expect_error<c10::ValueError>([&] { return pinned.lend(); }, {"host memory has the index 0"});
}

TEST_F(DeviceDlpackTest, TakesPinnedMemoryAsTheCpus) {
  Producer producer(0);
  producer.managed.dl_tensor.device.device_type = fake::is_amd() ? kDLROCMHost : kDLCUDAHost;
  const ValuePtr value = producer.lend();
  EXPECT_EQ(value->device(), at::kCPU);
  EXPECT_EQ(value->stream(), std::nullopt);
  EXPECT_EQ(value->to_tensor().data_ptr(), producer.data.data());
}

TEST_F(DeviceDlpackTest, MakesMemoryOnThePrototypesDevice) {
  const Producer prototype(3);
  const ValuePtr value = make_uninitialized(prototype.managed.dl_tensor);
  EXPECT_EQ(value->device(), device(3));
  EXPECT_EQ(fake::device_of_block(value->data()), 3);
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(3)", "allocate(s3.0, 16 bytes)", "uncheckedSetDevice(0)"}));
}

TEST_F(DeviceDlpackTest, EveryFailureGivesTheMemoryBackOnce) {
  Producer producer(2);
  const auto released = [] {
    const Lines lines = taken();
    return std::ranges::count(lines, "released");
  };
  EXPECT_EQ(fail_each_call([&] {
              static_cast<void>(taken());
              EXPECT_NO_THROW(validate_dlpack(producer.managed.dl_tensor, 0, Copy::kNever));
              static_cast<void>(producer.lend());
            }),
            (Lines{"getStream"}));
  EXPECT_EQ(released(), 1);
  EXPECT_EQ(
      fail_each_call([&] { static_cast<void>(producer.lend(Copy::kAlways)); }),
      (Lines{"getStream", "isStreamCapturing", "exchangeDevice", "allocate", "copy_", "getStream",
             "isStreamCapturing", "exchangeDevice", "synchronizeStream", "getStream"}));
  EXPECT_EQ(released(), 11);
}

}  // namespace
}  // namespace ortdl::test
