#include <ortdl/stream.h>

#include <atomic>
#include <set>
#include <thread>

#include "producer.h"

// Several threads, each with a device and a stream of its own.
namespace ortdl::test {
namespace {

class DeviceThreadsTest : public DeviceTest {
 protected:
  static void on_each_device(const std::function<void(int)>& body) {
    std::vector<std::thread> threads;
    for (int index = 0; index < fake::kDevices; ++index) {
      threads.emplace_back(body, index);
    }
    for (std::thread& thread : threads) {
      thread.join();
    }
  }
};

TEST_F(DeviceThreadsTest, EachKeepsItsDeviceAndItsStream) {
  constexpr int kRounds = 50;
  std::atomic<int> right = 0;
  on_each_device([&](int index) {
    const c10::Stream stream = new_stream(index);
    const Using current(stream);
    // Not the device that is worked on, so that whatever sets it has to set it back.
    fake::current().device = static_cast<at::DeviceIndex>((index + 1) % fake::kDevices);
    const fake::Current before = fake::current();
    for (int round = 0; round < kRounds; ++round) {
      ValuePtr value;
      {
        const Using writer(default_stream(index));
        value = Value::from_tensor(at::empty({4}, device(index)).fill_(round));
      }
      const at::Tensor read = value->to_tensor().cpu();
      right += at::equal(read, at::full({4}, static_cast<float>(round))) &&
                       fake::current() == before && value->stream() == default_stream(index)
                   ? 1
                   : 0;
    }
  });
  EXPECT_EQ(right, kRounds * fake::kDevices);
  EXPECT_EQ(fake::current(), fake::Current{});
}

TEST_F(DeviceThreadsTest, OneValueIsReadByFourStreamsAtOnce) {
  Producer producer(2);
  ValuePtr value = producer.lend();
  on_each_device([&](int index) {
    const c10::Stream stream = new_stream(index);
    for (int round = 0; round < 100; ++round) {
      value->order_before(stream);
    }
  });
  static_cast<void>(taken());
  value.reset();
  const Lines lines = taken();
  EXPECT_EQ(std::multiset<std::string>(lines.begin(), lines.end() - 1),
            (std::multiset<std::string>{
                "exchangeDevice(0)",     "record(s0.1)",          "block(s0.1 -> s2.0)",
                "destroyEvent",          "uncheckedSetDevice(0)", "exchangeDevice(1)",
                "record(s1.1)",          "block(s1.1 -> s2.0)",   "destroyEvent",
                "uncheckedSetDevice(0)", "exchangeDevice(2)",     "record(s2.1)",
                "block(s2.1 -> s2.0)",   "destroyEvent",          "uncheckedSetDevice(0)",
                "exchangeDevice(3)",     "record(s3.1)",          "block(s3.1 -> s2.0)",
                "destroyEvent",          "uncheckedSetDevice(0)"}));
  EXPECT_EQ(lines.back(), "released");
}

TEST_F(DeviceThreadsTest, AValueDiesOnAThreadWithAnotherDeviceAndStream) {
  Producer producer(1);
  ValuePtr value = producer.lend();
  value->order_before(new_stream(1));
  static_cast<void>(taken());
  std::thread([last = std::move(value)]() mutable {
    fake::current().device = 3;
    const fake::Current before = fake::current();
    last.reset();
    EXPECT_EQ(fake::current(), before);
  }).join();
  EXPECT_EQ(taken(), (Lines{"exchangeDevice(1)", "record(s1.1)", "block(s1.1 -> s1.0)",
                            "destroyEvent", "uncheckedSetDevice(3)", "released"}));
}

}  // namespace
}  // namespace ortdl::test
