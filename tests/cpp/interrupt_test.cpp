#include <ortdl/interrupt.h>
#include <ortdl/session.h>

#include <thread>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class InterruptTest : public CountedTest {
 protected:
  void SetUp() override { ASSERT_TRUE(make_interruptible()); }

  static void interrupt() {
    const Interruption now;
    now.end_run();
  }
  // Without options, or while `terminate` is set, ONNX Runtime runs nothing.
  static bool runs() {
    const auto session = c10::make_intrusive<Session>(SessionConfig{.model = onnx::subtract()});
    const at::Tensor ones = at::ones({2});
    return ort_error_code([&] { return session->run({ones, ones}); }) == ORT_OK;
  }
};

TEST_F(InterruptTest, EndsTheRunThatIsInProgressAndNoOther) {
  interrupt();
  EXPECT_FALSE(take_interruption());
  EXPECT_TRUE(runs());
  {
    const InterruptibleRun outer(nullptr);
    EXPECT_TRUE(runs());
    std::thread(interrupt).join();
    EXPECT_FALSE(runs());  // inside of the run that ends
  }
  EXPECT_TRUE(take_interruption());
  EXPECT_FALSE(take_interruption());
  EXPECT_TRUE(runs());
}

TEST_F(InterruptTest, TheCallersOptionsServeFurtherRuns) {
  OrtRunOptions* created = nullptr;
  check_status(api().CreateRunOptions(&created));
  const RunOptionsHandle options(created);
  {
    const InterruptibleRun run(created);
    EXPECT_EQ(run.options(), created);
    interrupt();
  }
  const auto session = c10::make_intrusive<Session>(SessionConfig{.model = onnx::subtract()});
  Feeds feeds = session->feeds();
  feeds.set(0, at::ones({2}));
  feeds.set(1, at::ones({2}));
  EXPECT_EQ(session->run(feeds, session->all_outputs(), created).size(), 1U);
}

TEST_F(InterruptTest, IsLookedAtBeforeEachRun) {
  static int looks = 0;
  look_before_runs([]() noexcept { ++looks; });
  EXPECT_TRUE(runs());
  EXPECT_TRUE(runs());
  EXPECT_EQ(looks, 2);
  look_before_runs(nullptr);
  EXPECT_TRUE(runs());
  EXPECT_EQ(looks, 2);
}

TEST_F(InterruptTest, OtherThreadsAreUnaffected) {
  std::thread([] {
    EXPECT_FALSE(make_interruptible());
    const InterruptibleRun run(nullptr);
    EXPECT_EQ(run.options(), nullptr);
    interrupt();
    EXPECT_FALSE(take_interruption());
    EXPECT_TRUE(runs());
  }).join();
}

}  // namespace
}  // namespace ortdl::test
