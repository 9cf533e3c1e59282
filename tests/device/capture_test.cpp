#include <ortdl/stream.h>

#include <optional>

#include "producer.h"

// Hand-over while a stream is captured into a graph.
namespace ortdl::test {
namespace {

class CaptureTest : public DeviceTest {};

// A capture that began on `origin`.
class Capturing {
 public:
  explicit Capturing(c10::Stream origin) : origin_(origin) {
    fake::machine().begin_capture(origin);
  }
  Capturing(const Capturing&) = delete;
  Capturing(Capturing&&) = delete;
  Capturing& operator=(const Capturing&) = delete;
  Capturing& operator=(Capturing&&) = delete;
  ~Capturing() {
    if (!ended_) {
      EXPECT_NO_THROW(end()) << "the capture did not survive";
    }
  }

  // The graph. Throws if something broke the capture, or a stream was not joined back.
  std::vector<fake::Work> end() {
    ended_ = true;
    return fake::machine().end_capture(origin_);
  }

 private:
  c10::Stream origin_;
  bool ended_ = false;
};

void replay(const std::vector<fake::Work>& graph) {
  for (const fake::Work& work : graph) {
    work();
  }
}

TEST_F(CaptureTest, ALaterStreamJoinsTheCaptureAndComesBack) {
  const c10::Stream earlier = new_stream(1);
  const c10::Stream later = new_stream(1);
  Capturing capture(earlier);
  order(earlier, later);
  EXPECT_TRUE(later.is_capturing());
  expect_error<c10::Error>([&] { return Capturing(later); }, {"already"});
  order(later, earlier);
  EXPECT_TRUE(capture.end().empty());
  EXPECT_FALSE(later.is_capturing());
}

TEST_F(CaptureTest, AGraphDoesNotWaitForWhatIsNotInIt) {
  const c10::Stream earlier = new_stream(1);
  const c10::Stream later = new_stream(2);
  const Capturing capture(later);
  expect_error<c10::Error>(
      [&] { order(earlier, later); },
      {"captures into a graph", "not part of the capture", "before the capture begins"});
  EXPECT_FALSE(earlier.is_capturing());
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(CaptureTest, TwoCapturesAreNotMerged) {
  const c10::Stream earlier = new_stream(1);
  const c10::Stream later = new_stream(2);
  const Capturing first(earlier);
  const Capturing second(later);
  expect_error<c10::Error>([&] { order(earlier, later); }, {"cannot be merged"});
  EXPECT_EQ(fake::live_events(), 0);
  EXPECT_EQ(fake::current(), fake::Current{});
}

TEST_F(CaptureTest, TheHostDoesNotWaitForACapture) {
  const c10::Stream stream = new_stream(0);
  const Capturing capture(stream);
  expect_error<c10::Error>([&] { wait_on_host(stream); },
                           {"being captured into a graph", "after it ended"});
  expect_error<c10::Error>([&] { require_no_capture(stream); }, {"being captured"});
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(CaptureTest, AValueMadeInACaptureIsHandedOverInIt) {
  const c10::Stream home = new_stream(1);
  const c10::Stream reader = new_stream(1);
  const at::Tensor tensor = at::empty({4}, device(1));
  const at::Tensor result = at::empty({4}, device(1));
  wait_on_host(default_stream(1));
  Capturing capture(home);
  ValuePtr value;
  {
    const Using current(home);
    tensor.fill_(5);
    value = Value::from_tensor(tensor);
  }
  {
    const Using current(reader);
    result.copy_(value->to_tensor());
  }
  EXPECT_TRUE(reader.is_capturing());
  order(reader, home);
  const std::vector<fake::Work> graph = capture.end();
  EXPECT_EQ(graph.size(), 2);
  EXPECT_FALSE(at::equal(result.cpu(), at::full({4}, 5.F)));
  replay(graph);
  EXPECT_TRUE(at::equal(result.cpu(), at::full({4}, 5.F)));
}

TEST_F(CaptureTest, AValueMadeBeforeACaptureIsRefusedInIt) {
  const ValuePtr value = Value::from_tensor(counting(1));
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const Capturing capture(stream);
  static_cast<void>(taken());
  expect_error<c10::Error>([&] { return value->to_tensor(); }, {"captures into a graph"});
  expect_error<c10::Error>([&] { return value->clone(); }, {"captures into a graph"});
  expect_error<c10::Error>([&] { value->order_before(stream); }, {"captures into a graph"});
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(CaptureTest, AValueOfTheCapturedStreamItselfNeedsNoOrder) {
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const ValuePtr value = Value::from_tensor(counting(1));
  const Capturing capture(stream);
  static_cast<void>(taken());
  EXPECT_EQ(value->to_tensor().data_ptr(), value->data());
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(CaptureTest, ACloneIsCaptured) {
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const ValuePtr value = Value::from_tensor(counting(1));
  Capturing capture(stream);
  const ValuePtr clone = value->clone();
  const std::vector<fake::Work> graph = capture.end();
  replay(graph);
  EXPECT_TRUE(at::equal(clone->to_tensor().cpu(), at::arange(4, at::kFloat)));
}

TEST_F(CaptureTest, RefusesCopiesThatTheHostWouldWaitFor) {
  const c10::Stream stream = new_stream(1);
  const Using current(stream);
  const ValuePtr value = Value::from_tensor(counting(1));
  const ValuePtr host = Value::from_tensor(at::arange(4, at::kFloat));
  const Capturing capture(stream);
  static_cast<void>(taken());
  expect_error<c10::Error>([&] { return value->to(at::kCPU); }, {"being captured"});
  expect_error<c10::Error>([&] { return host->to(device(1)); }, {"being captured"});
  expect_error<c10::Error>([&] { host->update(*value); }, {"being captured"});
  expect_error<c10::Error>([&] { value->update(*host); }, {"being captured"});
  EXPECT_EQ(taken(), Lines{});
}

TEST_F(CaptureTest, MemoryReadInACaptureGoesBackToItsOwnerInIt) {
  Producer producer(1);
  const c10::Stream home = new_stream(1);
  const c10::Stream reader = new_stream(1);
  const Using current(home);
  ValuePtr value = producer.lend();
  const Capturing capture(home);
  value->order_before(reader);
  EXPECT_TRUE(reader.is_capturing());
  value.reset();
  EXPECT_EQ(taken().back(), "released");
}

TEST_F(CaptureTest, RefusesCopiesThatWouldMakeTheCurrentStreamJoinAndThenWait) {
  const c10::Stream home = new_stream(1);
  std::optional<Using> current(home);
  const ValuePtr value = Value::from_tensor(counting(1));
  const ValuePtr host = Value::from_tensor(at::arange(4, at::kFloat));
  current.reset();
  const Capturing capture(home);
  static_cast<void>(taken());
  expect_error<c10::Error>([&] { return value->to(at::kCPU); }, {"being captured"});
  expect_error<c10::Error>([&] { host->update(*value); }, {"being captured"});
  expect_error<c10::Error>([&] { value->update(*host); }, {"being captured"});
  EXPECT_EQ(taken(), Lines{});
  EXPECT_FALSE(default_stream(1).is_capturing());
}

// A reader that began its own capture later pulls home into it when the value
// dies.
TEST_F(CaptureTest, AValueThatDiesDoesNotPullItsHomeIntoAReadersCapture) {
  Producer producer(1);
  const c10::Stream reader = new_stream(1);
  ValuePtr value = producer.lend();
  value->order_before(reader);
  {
    const Capturing capture(reader);
    value.reset();
    EXPECT_FALSE(default_stream(1).is_capturing());
  }
}

}  // namespace
}  // namespace ortdl::test
