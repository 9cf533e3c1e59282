#include <ortdl/ortdl.h>

#include <cstdlib>
#include <functional>
#include <new>
#include <string>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

// No memory is left at the first allocation of a call, at its second, ..., for every call that
// converts: each then succeeds or throws, std::bad_alloc or what ONNX Runtime makes of it, and
// nothing stays alive.
namespace ortdl::test {
namespace {

// How many allocations of this thread are left to the one that fails; 0 if none does.
thread_local int64_t countdown = 0;

void* allocate(size_t bytes) {
  if (countdown > 0) {
    --countdown;
    if (countdown == 0) {
      throw std::bad_alloc();
    }
  }
  void* memory = std::malloc(bytes == 0 ? 1 : bytes);
  if (memory == nullptr) {
    throw std::bad_alloc();
  }
  return memory;
}

}  // namespace
}  // namespace ortdl::test

// These stand for the whole program's, PyTorch's and ONNX Runtime's too.
void* operator new(size_t bytes) { return ortdl::test::allocate(bytes); }
// The one that calls the first where no sanitizer has put its own in that place.
void* operator new(size_t bytes, const std::nothrow_t& /*tag*/) noexcept try {
  return ortdl::test::allocate(bytes);
} catch (const std::bad_alloc&) {
  return nullptr;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t /*bytes*/) noexcept { std::free(memory); }

namespace ortdl::test {
namespace {

class AllocationTest : public CountedTest {
 protected:
  // Does `call` again and again, its first allocation failing, then its second, ..., until none is
  // left to fail. \return how many failed.
  static int64_t fail_each_allocation(const std::function<void()>& call) {
    call();  // what is made once is there
    for (int64_t nth = 1;; ++nth) {
      const LiveObjects before = live_objects();
      bool thrown = false;
      countdown = nth;
      try {
        call();
      } catch (const std::bad_alloc&) {
        thrown = true;
      } catch (const OrtError& error) {
        const std::string message = error.what_without_backtrace();
        EXPECT_NE(message.find("bad_alloc"), std::string::npos) << message;
        thrown = true;
      }
      const bool reached = countdown == 0;
      countdown = 0;
      EXPECT_TRUE(reached || !thrown);
      const LiveObjects after = live_objects();
      EXPECT_EQ(after.values, before.values) << "allocation " << nth;
      EXPECT_EQ(after.owners, before.owners) << "allocation " << nth;
      if (!reached) {
        return nth - 1;
      }
    }
  }
};

TEST_F(AllocationTest, TheProgramAllocatesHere) {
  countdown = 1;
  EXPECT_THROW(static_cast<void>(std::string(1000, 'x')), std::bad_alloc);
  EXPECT_EQ(countdown, 0);
}

TEST_F(AllocationTest, OfConversions) {
  const at::Tensor tensor = at::rand({2, 3});
  const ValuePtr value = Value::from_tensor(tensor);
  EXPECT_GE(fail_each_allocation([&] { static_cast<void>(Value::from_tensor(tensor)); }), 3);
  EXPECT_GE(fail_each_allocation([&] { static_cast<void>(value->to_tensor()); }), 2);
}

TEST_F(AllocationTest, OfDlpack) {
  const at::Tensor tensor = at::rand({1, 2, 1, 3, 1, 1, 2});  // more sizes than are kept in place
  const ValuePtr value = Value::from_tensor(tensor);
  const auto round_trip = [&] {
    static_cast<void>(from_dlpack(ManagedTensor(to_dlpack_versioned(value)), Copy::kNever));
  };
  EXPECT_GE(fail_each_allocation(round_trip), 5);
  EXPECT_GE(fail_each_allocation([&] { ManagedTensor managed(to_dlpack_legacy(value)); }), 1);
}

TEST_F(AllocationTest, OfFeeds) {
  const Session session(SessionConfig{.model = onnx::subtract()});
  const at::Tensor tensor = at::rand({2});
  const ValuePtr value = Value::from_tensor(tensor);
  const auto feed = [&] {
    Feeds feeds = session.feeds();
    feeds.set(0, tensor);
    feeds.set(1, value);
  };
  EXPECT_GE(fail_each_allocation(feed), 2);
}

}  // namespace
}  // namespace ortdl::test
