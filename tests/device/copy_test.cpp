#include <ortdl/value.h>

#include <algorithm>

#include "producer.h"

// Elements copied between devices, and between a device and the host.
namespace ortdl::test {
namespace {

class DeviceCopyTest : public DeviceTest {};

const at::Tensor& expected() {
  static const at::Tensor tensor = at::arange(4, at::kFloat);
  return tensor;
}

TEST_F(DeviceCopyTest, ToADeviceGoesThroughItsCurrentStream) {
  const ValuePtr value = Value::from_tensor(expected());
  for (int index = 0; index < fake::kDevices; ++index) {
    const c10::Stream stream = new_stream(index);
    const Using current(stream);
    static_cast<void>(taken());
    const ValuePtr moved = value->to(device(index));
    const std::string name = std::to_string(index);
    EXPECT_EQ(taken(), (Lines{"exchangeDevice(" + name + ")", "allocate(s" + name + ".1, 16 bytes)",
                              "uncheckedSetDevice(0)",
                              "copy_(from the host to s" + name + ".1, which waits)"}));
    EXPECT_EQ(moved->device(), device(index));
    EXPECT_EQ(moved->stream(), stream);
    EXPECT_TRUE(at::equal(moved->to_tensor().cpu(), expected()));
  }
}

TEST_F(DeviceCopyTest, ToTheCpuWaitsForTheElementsFirst) {
  const c10::Stream stream = new_stream(2);
  const ValuePtr value = Value::from_tensor(at::empty({4}, device(2)).fill_(6));
  const Using current(stream);
  static_cast<void>(taken());
  const ValuePtr copy = value->to(at::kCPU);
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(2)", "record(s2.0)", "block(s2.0 -> s2.1)", "destroyEvent",
                   "uncheckedSetDevice(0)", "exchangeDevice(2)", "recordDataPtrOnStream(s2.1)",
                   "uncheckedSetDevice(0)", "copy_(from s2.1 to the host, which waits)"}));
  EXPECT_EQ(copy->device(), at::kCPU);
  EXPECT_TRUE(at::equal(copy->to_tensor(), at::full({4}, 6.F)));
}

TEST_F(DeviceCopyTest, BetweenDevicesTheHostDoesNotWait) {
  const ValuePtr value = Value::from_tensor(at::empty({4}, device(1)).fill_(6));
  fake::current().device = 2;
  const fake::Current before = fake::current();
  static_cast<void>(taken());
  const ValuePtr moved = value->to(device(3));
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(3)", "allocate(s3.0, 16 bytes)",
                            "uncheckedSetDevice(2)", "copy_(from s1.0 to s3.0)"}));
  EXPECT_EQ(fake::current(), before);
  fake::current().device = 0;
  EXPECT_EQ(moved->device(), device(3));
  EXPECT_TRUE(at::equal(moved->to_tensor().cpu(), at::full({4}, 6.F)));
}

TEST_F(DeviceCopyTest, ACloneHasMemoryOfItsOwnOnTheSameDevice) {
  const ValuePtr value = Value::from_tensor(counting(1));
  const ValuePtr clone = value->clone();
  EXPECT_EQ(clone->device(), device(1));
  EXPECT_NE(clone->data(), value->data());
  EXPECT_TRUE(at::equal(clone->to_tensor().cpu(), expected()));
}

TEST_F(DeviceCopyTest, MovesValuesOfEveryTypeAndOfNoElements) {
  for (const ElementType& type : element_types()) {
    const auto bytes = at::arange(static_cast<int64_t>(type.bytes(6)), at::kByte);
    const ValuePtr value = type.packed() ? Value::from_packed(bytes, type, {2, 3})
                                         : Value::from_tensor(bytes.view(type.scalar).view({2, 3}));
    const ValuePtr back = value->to(device(1))->to(device(2))->to(at::kCPU);
    EXPECT_EQ(&back->type(), &type);
    EXPECT_EQ(back->sizes(), at::IntArrayRef({2, 3}));
    EXPECT_TRUE(at::equal(back->packed(), bytes)) << type.name;
  }
  const ValuePtr empty = Value::from_tensor(at::empty({0, 3}))->to(device(1));
  EXPECT_EQ(empty->device(), device(1));
  EXPECT_EQ(empty->sizes(), at::IntArrayRef({0, 3}));
}

TEST_F(DeviceCopyTest, RefusesADeviceThatIsNotThere) {
  const ValuePtr value = Value::from_tensor(expected());
  expect_error<c10::ValueError>([&] { return value->to(device(4)); }, {"4 such devices"});
  expect_error<c10::ValueError>(
      [&] { return value->to(at::Device(fake::device_type() == at::kHIP ? "cuda:0" : "hip:0")); },
      {"built without"});
}

TEST_F(DeviceCopyTest, AnUpdateFromTheHostIsOrderedOnBothSides) {
  const at::Tensor tensor = counting(1);
  const ValuePtr value = Value::from_tensor(tensor);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  static_cast<void>(taken());
  const int64_t version = tensor._version();
  value->update(at::full({4}, 8.F));
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(1)", "record(s1.0)", "block(s1.0 -> s1.1)", "destroyEvent",
                   "uncheckedSetDevice(0)", "exchangeDevice(1)", "recordDataPtrOnStream(s1.1)",
                   "uncheckedSetDevice(0)", "copy_(from the host to s1.1, which waits)",
                   "exchangeDevice(1)", "record(s1.1)", "block(s1.1 -> s1.0)", "destroyEvent",
                   "uncheckedSetDevice(0)"}));
  EXPECT_GT(tensor._version(), version);
  EXPECT_TRUE(at::equal(read_on(default_stream(1), tensor), at::full({4}, 8.F)));
}

TEST_F(DeviceCopyTest, AnUpdateFromAnotherDeviceWaitsForItsElements) {
  const ValuePtr target = Value::from_tensor(counting(3));
  ValuePtr source;
  {
    const Using writer(new_stream(1));
    source = Value::from_tensor(at::empty({4}, device(1)).fill_(8));
  }
  static_cast<void>(taken());
  target->update(*source);
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(1)", "record(s1.1)", "block(s1.1 -> s1.0)", "destroyEvent",
                   "uncheckedSetDevice(0)", "exchangeDevice(1)", "recordDataPtrOnStream(s1.0)",
                   "uncheckedSetDevice(0)", "copy_(from s1.0 to s3.0)"}));
  EXPECT_TRUE(at::equal(target->to_tensor().cpu(), at::full({4}, 8.F)));
}

TEST_F(DeviceCopyTest, AnUpdateOfTheHostsMemoryWaits) {
  const ValuePtr target = Value::from_tensor(at::zeros({4}));
  target->update(*Value::from_tensor(at::empty({4}, device(2)).fill_(8)));
  EXPECT_TRUE(at::equal(target->to_tensor(), at::full({4}, 8.F)));
  target->update(at::empty({4}, device(1)).fill_(9));
  EXPECT_TRUE(at::equal(target->to_tensor(), at::full({4}, 9.F)));
}

TEST_F(DeviceCopyTest, AnUpdateOnAnotherStreamIsSeenAtHome) {
  const at::Tensor tensor = counting(1);
  const ValuePtr value = Value::from_tensor(tensor);
  const at::Tensor source = at::empty({4}, device(1)).fill_(8);
  {
    const Using current(new_stream(1));
    value->update(*Value::from_tensor(source));
  }
  EXPECT_TRUE(at::equal(read_on(default_stream(1), tensor), at::full({4}, 8.F)));
}

TEST_F(DeviceCopyTest, AnUpdateMayOverlapItself) {
  const at::Tensor memory = counting(1, 6);
  const ValuePtr value = Value::from_tensor(memory.narrow(0, 2, 4));
  const fake::Current before = fake::current();
  static_cast<void>(taken());
  value->update(memory.narrow(0, 0, 4));
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "allocate(s1.0, 16 bytes)",
                            "uncheckedSetDevice(0)", "copy_(from s1.0 to s1.0)",
                            "copy_(from s1.0 to s1.0)", "free(s1.0, 16 bytes)"}));
  EXPECT_EQ(fake::current(), before);
  EXPECT_TRUE(at::equal(memory.cpu(), at::tensor({0.F, 1.F, 0.F, 1.F, 2.F, 3.F})));
}

TEST_F(DeviceCopyTest, ARefusedUpdateWritesNothing) {
  const at::Tensor tensor = counting(1);
  const ValuePtr value = Value::from_tensor(tensor);
  const int64_t version = tensor._version();
  expect_error<c10::ValueError>([&] { value->update(counting(2, 5)); }, {"shape [5]"});
  expect_error<c10::TypeError>([&] { value->update(at::ones({4}, at::kInt).to(device(1))); },
                               {"tensor(int32)"});
  Producer producer(1);
  producer.managed.flags = kDlpackReadOnly;
  expect_error<c10::BufferError>([&] { producer.lend()->update(tensor); }, {"read-only"});
  EXPECT_EQ(tensor._version(), version);
  EXPECT_TRUE(at::equal(tensor.cpu(), expected()));
}

TEST_F(DeviceCopyTest, AnUpdateThatFailsAfterItsCopyBumpsTheVersion) {
  const at::Tensor tensor = counting(1);
  const ValuePtr value = Value::from_tensor(tensor);
  const int64_t version = tensor._version();
  const Using current(new_stream(1));
  fake::trace().fail("record", 2);
  EXPECT_THROW(value->update(at::full({4}, 8.F)), c10::Error);
  EXPECT_EQ(fake::trace().stop_failing(), "record");
  ASSERT_TRUE(at::equal(tensor.cpu(), at::full({4}, 8.F)));
  EXPECT_GT(tensor._version(), version);
}

TEST_F(DeviceCopyTest, EveryFailureOfACopyLeavesNothingBehind) {
  const ValuePtr host = Value::from_tensor(expected());
  const ValuePtr one = Value::from_tensor(counting(1));
  const ValuePtr two = Value::from_tensor(counting(2));
  const Using first(new_stream(1));
  const Using second(new_stream(2));
  for (const auto& [source, target] :
       {std::pair(host, device(1)), std::pair(one, at::Device("cpu")), std::pair(one, device(2)),
        std::pair(one, device(1))}) {
    const Lines failed = fail_each_call([&] { static_cast<void>(source->to(target)); });
    EXPECT_EQ(std::ranges::count(failed, "copy_"), 1);
    EXPECT_EQ(std::ranges::count(failed, "block"), source->device().is_cpu() ? 0 : 1);
  }
  for (const auto& [target, source] :
       {std::pair(one, host), std::pair(host, one), std::pair(two, one), std::pair(one, one)}) {
    const Lines failed = fail_each_call([&] { target->update(*source); });
    EXPECT_GE(std::ranges::count(failed, "copy_"), 1);
    EXPECT_GE(std::ranges::count(failed, "block"), 1);
  }
}

}  // namespace
}  // namespace ortdl::test
