#include <dlfcn.h>

#include "device_test.h"

// The fake itself: what the other tests rely on.
namespace ortdl::test {
namespace {

class FakeTest : public DeviceTest {};

using LaunchHostFunc = int(void*, void (*)(void*), void*);

void add_one(void* number) { ++*static_cast<int*>(number); }

TEST_F(FakeTest, NewMemoryIsNotZero) {
  const at::Tensor bytes = at::empty({3}, at::TensorOptions(at::kByte).device(device(1)));
  EXPECT_TRUE(at::equal(bytes.cpu(), at::full({3}, 0xA5, at::kByte)));
}

TEST_F(FakeTest, WithoutAnEventAReaderFindsStaleBytes) {
  const at::Tensor tensor = at::empty({2}, device(0)).fill_(1);
  wait_on_host(default_stream(0));
  tensor.fill_(2);
  const c10::Stream other = new_stream(0);
  EXPECT_TRUE(at::equal(read_on(other, tensor), at::full({2}, 1.F)));
  EXPECT_TRUE(at::equal(read_on(default_stream(0), tensor), at::full({2}, 2.F)));
}

TEST_F(FakeTest, MemoryIsReusedAtOnceByTheStreamItCameFrom) {
  at::Tensor tensor = at::empty({2}, device(0));
  const void* memory = tensor.const_data_ptr();
  tensor.reset();
  const c10::Stream other = new_stream(0);
  {
    const Using current(other);
    EXPECT_NE(at::empty({2}, device(0)).const_data_ptr(), memory);
  }
  EXPECT_EQ(at::empty({2}, device(0)).const_data_ptr(), memory);
}

TEST_F(FakeTest, APluginFindsTheFunctionThatQueuesItsWork) {
  auto* launch = reinterpret_cast<LaunchHostFunc*>(dlsym(RTLD_DEFAULT, "cudaLaunchHostFunc"));
  ASSERT_NE(launch, nullptr);
  const c10::Stream stream = new_stream(1);
  int count = 0;
  EXPECT_EQ(launch(stream.native_handle(), &add_one, &count), 0);
  EXPECT_EQ(count, 0);
  wait_on_host(stream);
  EXPECT_EQ(count, 1);
  fake::current().device = 2;
  static_cast<void>(taken());
  EXPECT_EQ(launch(nullptr, &add_one, &count), 0);
  EXPECT_EQ(taken(), (Lines{"cudaLaunchHostFunc(s2.0)"}));
  fake::current().device = 0;
  EXPECT_EQ(launch(&count, &add_one, &count), 400);
  wait_on_host(default_stream(2));
  EXPECT_EQ(count, 2);
}

TEST_F(FakeTest, TheNthCallOfAKindFails) {
  const c10::Stream stream = new_stream(1);
  fake::trace().fail("exchangeDevice", 2);
  wait_on_host(stream);
  EXPECT_THROW(wait_on_host(stream), c10::Error);
  wait_on_host(stream);
  EXPECT_EQ(fake::trace().stop_failing(), "exchangeDevice");
}

TEST_F(FakeTest, ABrokenCaptureDoesNotEndWell) {
  const c10::Stream stream = new_stream(1);
  const c10::Stream other = new_stream(1);
  auto& machine = fake::machine();
  machine.begin_capture(stream);
  EXPECT_THROW(machine.synchronize(machine.queue(stream)), c10::Error);
  expect_error<c10::Error>([&] { return machine.end_capture(stream); }, {"was broken"});
  machine.begin_capture(stream);
  order(stream, other);
  expect_error<c10::Error>([&] { return machine.end_capture(stream); }, {"not joined back"});
}

}  // namespace
}  // namespace ortdl::test
