#include "device_test.h"

#include <utility>

namespace ortdl::test {
namespace {

struct Left {
  fake::Current current = fake::current();
  int64_t events = fake::live_events();
  int64_t blocks = fake::live_blocks();
  int64_t values = live_objects().values;
  int64_t owners = live_objects().owners;

  bool operator==(const Left&) const = default;
};

}  // namespace

at::Device device(int index) { return {fake::device_type(), static_cast<at::DeviceIndex>(index)}; }

c10::Stream default_stream(int index) { return c10::Stream(c10::Stream::DEFAULT, device(index)); }

c10::Stream new_stream(int index) {
  return c10::Stream(c10::Stream::UNSAFE, device(index),
                     fake::machine().make_pool_stream(static_cast<at::DeviceIndex>(index)));
}

at::Tensor counting(int index, int64_t count) {
  return at::arange(count, at::kFloat).to(device(index));
}

at::Tensor read_on(c10::Stream stream, const at::Tensor& tensor) {
  const Using current(stream);
  return tensor.cpu();
}

Using::Using(c10::Stream stream)
    : device_(static_cast<size_t>(stream.device_index())),
      before_(std::exchange(fake::current().streams.at(device_), stream.id())) {}

Using::~Using() { fake::current().streams.at(device_) = before_; }

void DeviceTest::SetUp() {
  ASSERT_EQ(fake::current(), fake::Current{});
  ASSERT_EQ(fake::live_blocks(), 0);
  static_cast<void>(taken());
}

void DeviceTest::TearDown() {
  CountedTest::TearDown();
  EXPECT_EQ(fake::trace().stop_failing(), "");
  EXPECT_TRUE(fake::current() == fake::Current{}) << "another device or stream is current";
  EXPECT_EQ(fake::live_events(), 0) << "events leaked";
  EXPECT_EQ(fake::live_blocks(), 0) << "device memory leaked";
  fake::current() = {};
  fake::machine().reset();
  fake::release_free_blocks();
}

Lines DeviceTest::fail_each_call(const std::function<void()>& action) {
  constexpr int64_t kMost = 1000;
  Lines failed;
  for (int64_t nth = 1; nth < kMost; ++nth) {
    const Left before;
    fake::trace().fail("", nth);
    std::string message;
    try {
      action();
    } catch (const c10::Error& error) {
      message = error.what_without_backtrace();
    }
    const std::string kind = fake::trace().stop_failing();
    EXPECT_TRUE(before == Left{}) << "after call " << nth << ", " << kind;
    if (kind.empty()) {
      EXPECT_EQ(message, "") << "nothing was to fail";
      return failed;
    }
    EXPECT_NE(message.find("fake: " + kind + " failed"), std::string::npos)
        << "of call " << nth << ", " << kind << ", came: '" << message << "'";
    failed.push_back(kind);
  }
  ADD_FAILURE() << "the calls do not end";
  return failed;
}

}  // namespace ortdl::test
