#include <ortdl/session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class RunOptionsTest : public CountedTest {
 protected:
  void SetUp() override {
    OrtRunOptions* created = nullptr;
    check_status(api().CreateRunOptions(&created));
    options_.reset(created);
    session_ = c10::make_intrusive<Session>(SessionConfig{.model = onnx::subtract()});
  }

  void TearDown() override {
    session_.reset();
    CountedTest::TearDown();
  }

  std::vector<at::Tensor> run() {
    Feeds feeds = session_->feeds();
    feeds.set(0, at::tensor({5.F, 7.F}));
    feeds.set(1, at::tensor({1.F, 10.F}));
    return session_->run(feeds, session_->all_outputs(), options_.get());
  }

  RunOptionsHandle options_;
  SessionPtr session_;
};

TEST_F(RunOptionsTest, ARunMayHaveThem) {
  EXPECT_TRUE(at::equal(run()[0], at::tensor({4.F, -3.F})));
}

TEST_F(RunOptionsTest, TerminateIsAnErrorThatSaysSo) {
  check_status(api().RunOptionsSetTerminate(options_.get()));
  expect_error<OrtError>([&] { return run(); }, {"terminate"});
  check_status(api().RunOptionsUnsetTerminate(options_.get()));
  EXPECT_TRUE(at::equal(run()[0], at::tensor({4.F, -3.F})));
}

}  // namespace
}  // namespace ortdl::test
