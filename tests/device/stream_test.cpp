#include <ortdl/stream.h>

#include "device_test.h"

// Order between two streams.
namespace ortdl::test {
namespace {

class StreamTest : public DeviceTest {};

TEST_F(StreamTest, OrdersOneStreamAfterAnotherByAnEvent) {
  const c10::Stream first = new_stream(0);
  const c10::Stream second = new_stream(0);
  order(first, second);
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(0)", "record(s0.1)", "block(s0.1 -> s0.3)",
                            "destroyEvent", "uncheckedSetDevice(0)"}));
}

TEST_F(StreamTest, OrdersStreamsOfTwoDevicesWhateverDeviceIsCurrent) {
  const c10::Stream stream = new_stream(2);
  fake::current().device = 3;
  order(default_stream(1), stream);
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "record(s1.0)", "block(s1.0 -> s2.1)",
                            "destroyEvent", "uncheckedSetDevice(3)"}));
  EXPECT_EQ(fake::current().device, 3);
  fake::current().device = 0;
}

TEST_F(StreamTest, NeedsNoOrderWithinOneStream) {
  const c10::Stream stream = new_stream(1);
  order(stream, stream);
  order(stream, stream_of_handle(device(1), handle_of(stream)));
  order(default_stream(1), stream_of_handle(device(1), 0));
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(StreamTest, TellsTheDefaultStreamsOfTwoDevicesApart) {
  ASSERT_EQ(handle_of(default_stream(0)), handle_of(default_stream(1)));
  order(default_stream(0), default_stream(1));
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(0)", "record(s0.0)", "block(s0.0 -> s1.0)",
                            "destroyEvent", "uncheckedSetDevice(0)"}));
}

TEST_F(StreamTest, FindsStreamsByTheirHandles) {
  const uintptr_t handle = fake::machine().make_external_stream(2);
  const c10::Stream external = stream_of_handle(device(2), handle);
  EXPECT_TRUE(is_external(external));
  EXPECT_EQ(handle_of(external), handle);
  EXPECT_EQ(external.device(), device(2));
  const c10::Stream own = new_stream(2);
  EXPECT_FALSE(is_external(own));
  EXPECT_NE(handle_of(own), handle);
  EXPECT_EQ(stream_of_handle(device(2), 0), default_stream(2));
  EXPECT_FALSE(is_external(default_stream(2)));
  order(external, own);
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(2)", "record(s2.external1)", "block(s2.external1 -> s2.1)",
                   "destroyEvent", "uncheckedSetDevice(0)"}));
}

TEST_F(StreamTest, KnowsTheCurrentStreamOfEachDevice) {
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  EXPECT_EQ(current_stream(device(1)), stream);
  EXPECT_EQ(current_stream(device(2)), default_stream(2));
  expect_error<c10::ValueError>([] { return current_stream(device(4)); }, {"4 such devices"});
}

TEST_F(StreamTest, WorkWaitsForTheWorkBeforeIt) {
  const c10::Stream first = new_stream(0);
  const c10::Stream second = new_stream(1);
  auto& machine = fake::machine();
  std::string done;
  machine.enqueue(machine.queue(first), [&done] { done += "a"; });
  order(first, second);
  machine.enqueue(machine.queue(first), [&done] { done += "c"; });
  machine.enqueue(machine.queue(second), [&done] { done += "b"; });
  EXPECT_EQ(done, "") << "the host waited";
  wait_on_host(second);
  EXPECT_EQ(done, "ab");
  wait_on_host(first);
  EXPECT_EQ(done, "abc");
}

TEST_F(StreamTest, TheHostWaitsOnTheStreamsDevice) {
  const c10::Stream stream = new_stream(3);
  wait_on_host(stream);
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(3)", "synchronizeStream(s3.1)", "uncheckedSetDevice(0)"}));
}

TEST_F(StreamTest, RecordsTheUseOfPyTorchsMemoryOnly) {
  const at::Tensor tensor = at::empty({4}, device(1));
  const c10::Stream stream = new_stream(1);
  static_cast<void>(taken());
  EXPECT_TRUE(record_use(tensor.storage().data_ptr(), stream));
  EXPECT_EQ(taken(),
            (Lines{"exchangeDevice(1)", "recordDataPtrOnStream(s1.1)", "uncheckedSetDevice(0)"}));
  float memory = 0;
  EXPECT_FALSE(record_use({&memory, device(1)}, stream));
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(StreamTest, EveryFailureLeavesDeviceStreamsAndEventsAsTheyWere) {
  const c10::Stream first = new_stream(1);
  const c10::Stream second = new_stream(2);
  EXPECT_EQ(fail_each_call([&] { order(first, second); }),
            (Lines{"isStreamCapturing", "isStreamCapturing", "exchangeDevice", "record", "block"}));
  const c10::Stream third = new_stream(1);
  EXPECT_EQ(fail_each_call([&] { order(first, third); }),
            (Lines{"getStreamNativeHandle", "getStreamNativeHandle", "isStreamCapturing",
                   "isStreamCapturing", "exchangeDevice", "record", "block"}));
  EXPECT_EQ(fail_each_call([&] { wait_on_host(first); }),
            (Lines{"isStreamCapturing", "exchangeDevice", "synchronizeStream"}));
  const at::Tensor tensor = at::empty({4}, device(1));
  EXPECT_EQ(fail_each_call([&] { EXPECT_TRUE(record_use(tensor.storage().data_ptr(), first)); }),
            (Lines{"exchangeDevice", "recordDataPtrOnStream"}));
  EXPECT_EQ(fail_each_call([] { static_cast<void>(current_stream(device(1))); }),
            (Lines{"getStream"}));
}

}  // namespace
}  // namespace ortdl::test
