#include <ortdl/value.h>

#include "device_test.h"

// Tensors and values on one device: whose memory, which stream.
namespace ortdl::test {
namespace {

class DeviceValueTest : public DeviceTest {};

// What the accelerator is asked for when `reader` reads PyTorch's memory that `home` made.
Lines ordered_and_recorded(const std::string& index, const std::string& home,
                           const std::string& reader) {
  return {"exchangeDevice(" + index + ")",
          "record(" + home + ")",
          "block(" + home + " -> " + reader + ")",
          "destroyEvent",
          "uncheckedSetDevice(0)",
          "exchangeDevice(" + index + ")",
          "recordDataPtrOnStream(" + reader + ")",
          "uncheckedSetDevice(0)"};
}

TEST_F(DeviceValueTest, SharesTheMemoryOfEachDeviceWhateverDeviceIsCurrent) {
  for (int index = 0; index < fake::kDevices; ++index) {
    for (int current = 0; current < fake::kDevices; ++current) {
      const at::Tensor tensor = counting(index);
      fake::current().device = static_cast<at::DeviceIndex>(current);
      static_cast<void>(taken());
      const ValuePtr value = Value::from_tensor(tensor);
      const at::Tensor back = value->to_tensor();
      EXPECT_EQ(value->data(), tensor.data_ptr());
      EXPECT_EQ(value->device(), device(index));
      EXPECT_EQ(back.data_ptr(), tensor.data_ptr());
      EXPECT_EQ(back.device(), device(index));
      EXPECT_EQ(back.storage().device(), device(index));
      EXPECT_EQ(taken(), Lines{}) << "one stream needs no order";
      EXPECT_EQ(fake::current().device, current);
      fake::current().device = 0;
    }
  }
}

TEST_F(DeviceValueTest, ShowsOnnxRuntimeTheDevicesMemory) {
  const at::Tensor tensor = counting(2);
  const ValuePtr value = Value::from_tensor(tensor);
  const OrtMemoryInfo* info = nullptr;
  check_status(api().GetTensorMemoryInfo(value->handle(), &info));
  EXPECT_EQ(device_of(info), device(2));
  void* data = nullptr;
  check_status(api().GetTensorMutableData(value->handle(), &data));
  EXPECT_EQ(data, tensor.data_ptr());
}

// ONNX Runtime's own value of one float at `memory`, which is taken for device number `index`'s.
ValueHandle runtime_value_at(float& memory, int index) {
  constexpr int64_t size = 1;
  ::OrtValue* made = nullptr;
  check_status(api().CreateTensorWithDataAsOrtValue(memory_info(device(index)), &memory,
                                                    sizeof memory, &size, 1,
                                                    ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &made));
  return ValueHandle(made);
}

TEST_F(DeviceValueTest, ReadsWhereOnnxRuntimesOwnValueIs) {
  float memory = 0;
  const c10::Stream stream = new_stream(3);
  const ValuePtr value = c10::make_intrusive<Value>(runtime_value_at(memory, 3), stream);
  EXPECT_EQ(value->device(), device(3));
  EXPECT_EQ(value->stream(), stream);
  const at::Tensor tensor = value->to_tensor();
  EXPECT_EQ(tensor.data_ptr(), &memory);
  EXPECT_EQ(tensor.device(), device(3));
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(3)", "record(s3.1)", "block(s3.1 -> s3.0)",
                            "destroyEvent", "uncheckedSetDevice(0)"}));
}

TEST_F(DeviceValueTest, RefusesAValueOfOnnxRuntimeOnADeviceThatPyTorchDoesNotHave) {
  float memory = 0;
  ValueHandle handle = runtime_value_at(memory, 7);
  expect_error<c10::ValueError>([&] { return held(std::move(handle)); }, {":7", "4 such devices"});
}

TEST_F(DeviceValueTest, RemembersTheStreamThatWasCurrent) {
  const at::Tensor tensor = counting(1);
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  EXPECT_EQ(Value::from_tensor(tensor)->stream(), stream);
  EXPECT_EQ(Value::from_tensor(counting(2))->stream(), default_stream(2));
  EXPECT_EQ(Value::from_tensor(at::ones({2}))->stream(), std::nullopt);
}

TEST_F(DeviceValueTest, OrdersAnotherCurrentStreamAndRecordsTheUse) {
  for (int index = 0; index < fake::kDevices; ++index) {
    const ValuePtr value = Value::from_tensor(counting(index));
    const c10::Stream stream = new_stream(index);
    const Using current(stream);
    static_cast<void>(taken());
    const std::string name = std::to_string(index);
    const Lines expected = ordered_and_recorded(name, "s" + name + ".0", "s" + name + ".1");
    const at::Tensor tensor = value->to_tensor();
    EXPECT_EQ(taken(), expected);
    const at::Tensor bytes = value->packed();
    EXPECT_EQ(taken(), expected);
    value->order_before(stream);
    EXPECT_EQ(taken(), expected);
    value->order_before(default_stream(index));
    EXPECT_EQ(taken(), Lines{}) << "its own stream";
    EXPECT_EQ(value->stream(), default_stream(index));
  }
}

TEST_F(DeviceValueTest, PyTorchsMemoryIsGivenBackWithoutAnEvent) {
  at::Tensor tensor = counting(1);
  ValuePtr value = Value::from_tensor(tensor);
  const c10::Stream stream = new_stream(1);
  value->order_before(stream);
  static_cast<void>(taken());
  tensor.reset();
  value.reset();
  EXPECT_EQ(taken(), (Lines{"free(s1.0, 16 bytes)"}));
}

TEST_F(DeviceValueTest, NothingWaitsForWorkThatIsQueued) {
  const at::Tensor tensor = at::empty({4}, device(1)).fill_(7);
  const auto* data = static_cast<const uint8_t*>(tensor.const_data_ptr());
  const c10::Stream stream = new_stream(1);
  const ValuePtr value = Value::from_tensor(tensor);
  at::Tensor copy;
  {
    const Using current(stream);
    copy = value->to_tensor().clone();
  }
  auto& machine = fake::machine();
  EXPECT_FALSE(machine.is_done(machine.record(machine.queue(default_stream(1)))));
  EXPECT_FALSE(machine.is_done(machine.record(machine.queue(stream))));
  EXPECT_TRUE(at::equal(read_on(stream, copy), at::full({4}, 7.F)));
  EXPECT_NE(data[3], 0xA5);
}

TEST_F(DeviceValueTest, AWriteSeenByAReaderOnAnotherStreamIsNeverStale) {
  const c10::Stream writer = new_stream(2);
  const c10::Stream reader = new_stream(2);
  at::Tensor tensor;
  ValuePtr value;
  {
    const Using current(writer);
    tensor = at::empty({4}, device(2)).fill_(3);
    value = Value::from_tensor(tensor);
  }
  const Using current(reader);
  EXPECT_TRUE(at::equal(value->to_tensor().cpu(), at::full({4}, 3.F)));
}

TEST_F(DeviceValueTest, MemoryIsNotReusedWhileAnotherStreamReadsIt) {
  const c10::Stream reader = new_stream(1);
  at::Tensor tensor = at::empty({4}, device(1)).fill_(7);
  ValuePtr value = Value::from_tensor(tensor);
  at::Tensor copy;
  {
    const Using current(reader);
    copy = at::empty({4}, device(1));
    copy.copy_(value->to_tensor());
  }
  const void* read = tensor.const_data_ptr();
  tensor.reset();
  value.reset();
  const at::Tensor next = at::empty({4}, device(1)).fill_(9);
  EXPECT_NE(next.const_data_ptr(), read);
  EXPECT_TRUE(at::equal(read_on(default_stream(1), next), at::full({4}, 9.F)));
  EXPECT_TRUE(at::equal(read_on(reader, copy), at::full({4}, 7.F)));
  const at::Tensor last = at::empty({4}, device(1));
  EXPECT_EQ(last.const_data_ptr(), read) << "reused once the reader is done";
}

TEST_F(DeviceValueTest, ARoundTripOfARoundTripIsOrderedThroughBoth) {
  const c10::Stream second = new_stream(0);
  const c10::Stream third = new_stream(0);
  at::Tensor tensor = at::empty({4}, device(0)).fill_(5);
  ValuePtr value = Value::from_tensor(tensor);
  {
    const Using current(second);
    value = Value::from_tensor(value->to_tensor());
    EXPECT_EQ(value->stream(), second);
  }
  const Using current(third);
  at::Tensor copy = value->to_tensor().clone();
  const void* read = tensor.const_data_ptr();
  tensor.reset();
  value.reset();
  {
    const Using first(default_stream(0));
    const at::Tensor next = at::empty({4}, device(0)).fill_(9);
    EXPECT_NE(next.const_data_ptr(), read) << "the second stream's wait is not done";
    EXPECT_TRUE(at::equal(next.cpu(), at::full({4}, 9.F)));
  }
  EXPECT_TRUE(at::equal(copy.cpu(), at::full({4}, 5.F)));
}

TEST_F(DeviceValueTest, PinnedMemoryIsTheCpus) {
  const at::Tensor pinned = at::arange(4, at::kFloat).pin_memory();
  ASSERT_TRUE(fake::is_pinned(pinned.const_data_ptr()));
  static_cast<void>(taken());
  const ValuePtr value = Value::from_tensor(pinned);
  EXPECT_EQ(value->device(), at::kCPU);
  EXPECT_EQ(value->to_tensor().data_ptr(), pinned.data_ptr());
  EXPECT_EQ(value->stream(), std::nullopt);
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(DeviceValueTest, CopiesWhatIsNotContiguousOnTheDevice) {
  const at::Tensor tensor = counting(3, 6).view({2, 3}).t();
  expect_error<c10::ValueError>([&] { return Value::from_tensor(tensor); }, {"not contiguous"});
  const ValuePtr value = Value::from_tensor(tensor, Copy::kIfNeeded);
  EXPECT_EQ(value->device(), device(3));
  EXPECT_TRUE(
      at::equal(value->to_tensor().cpu(), at::arange(6, at::kFloat).view({2, 3}).t().contiguous()));
}

TEST_F(DeviceValueTest, KeepsTheStreamWhenReinterpreted) {
  const c10::Stream stream = new_stream(1);
  const at::Tensor tensor = counting(1);
  const Using current(stream);
  const ValuePtr value = Value::from_tensor(tensor);
  const Using other(default_stream(1));
  const ValuePtr bits = value->reinterpreted(element_type(at::kInt));
  EXPECT_EQ(bits->stream(), stream);
  EXPECT_EQ(bits->data(), value->data());
}

TEST_F(DeviceValueTest, EveryFailureLeavesNothingBehind) {
  const at::Tensor tensor = counting(2);
  EXPECT_EQ(fail_each_call([&] { static_cast<void>(Value::from_tensor(tensor)); }),
            (Lines{"getStream"}));
  const ValuePtr value = Value::from_tensor(tensor);
  const Using current(new_stream(2));
  const Lines calls{"getStream",
                    "getStreamNativeHandle",
                    "getStreamNativeHandle",
                    "isStreamCapturing",
                    "isStreamCapturing",
                    "exchangeDevice",
                    "record",
                    "block",
                    "exchangeDevice",
                    "recordDataPtrOnStream"};
  EXPECT_EQ(fail_each_call([&] { static_cast<void>(value->to_tensor()); }), calls);
  EXPECT_EQ(fail_each_call([&] { static_cast<void>(value->packed()); }), calls);
  EXPECT_EQ(
      fail_each_call([&] { static_cast<void>(value->reinterpreted(element_type(at::kInt))); }),
      calls);
}

TEST_F(DeviceValueTest, ADeviceWithoutAnIndexIsRefused) {
  const ValuePtr value = Value::from_tensor(at::arange(4, at::kFloat));
  expect_error<c10::ValueError>([&] { return value->to(at::Device(fake::device_type())); },
                                {"has no index", ":0"});
}

TEST_F(DeviceValueTest, AFailedConversionLeavesTheStorageResizable) {
  const at::Tensor tensor = counting(1);
  fake::trace().fail("getStream");
  EXPECT_THROW(static_cast<void>(Value::from_tensor(tensor)), c10::Error);
  EXPECT_EQ(fake::trace().stop_failing(), "getStream");
  EXPECT_TRUE(tensor.storage().resizable());
}

}  // namespace
}  // namespace ortdl::test
