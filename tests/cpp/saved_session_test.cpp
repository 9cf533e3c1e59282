#include <ortdl/saved_session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class SavedSessionTest : public CountedTest {};

SessionPtr load() { return c10::make_intrusive<Session>(SessionConfig{.model = onnx::subtract()}); }

TEST_F(SavedSessionTest, WhatIsLoadedAtOnceIsTheSessionItself) {
  const SessionPtr session = load();
  EXPECT_EQ(load_session(save_session(session)), session);
}

TEST_F(SavedSessionTest, ASessionThatIsGoneIsLoadedAgain) {
  SessionPtr session = load();
  SessionState state = save_session(session);
  session.reset();
  EXPECT_EQ(live_objects().sessions, 0);
  const SessionPtr again = load_session(std::move(state));
  EXPECT_TRUE(at::equal(again->run({at::ones({2}), at::ones({2})})[0], at::zeros({2})));
}

TEST_F(SavedSessionTest, AnotherStateIsAnotherSession) {
  const SessionPtr session = load();
  SessionState state = save_session(session);
  std::get<1>(state) = std::get<1>(state).clone();
  const SessionPtr other = load_session(std::move(state));
  EXPECT_NE(other, session);
  EXPECT_TRUE(at::equal(other->run({at::ones({2}), at::ones({2})})[0], at::zeros({2})));
}

}  // namespace
}  // namespace ortdl::test
