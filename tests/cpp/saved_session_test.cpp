#include <c10/core/InferenceMode.h>
#include <ortdl/saved_session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class SavedSessionTest : public CountedTest {};

SessionPtr load_subtract() {
  return c10::make_intrusive<Session>(SessionConfig{.model = onnx::subtract()});
}

TEST_F(SavedSessionTest, WhatIsLoadedAtOnceIsTheSessionItself) {
  const SessionPtr session = load_subtract();
  EXPECT_EQ(load_session(save_session(session)), session);
}

TEST_F(SavedSessionTest, ASessionThatIsGoneIsLoadedAgain) {
  SessionPtr session = load_subtract();
  SessionState state = save_session(session);
  session.reset();
  EXPECT_EQ(live_objects().sessions, 0);
  const SessionPtr again = load_session(std::move(state));
  EXPECT_TRUE(at::equal(again->run({at::ones({2}), at::ones({2})})[0], at::zeros({2})));
}

TEST_F(SavedSessionTest, AnotherStateIsAnotherSession) {
  const SessionPtr session = load_subtract();
  SessionState state = save_session(session);
  at::Tensor& model = std::get<at::Tensor>(std::get<1>(state).front());
  model = model.clone();
  const SessionPtr other = load_session(std::move(state));
  EXPECT_NE(other, session);
  EXPECT_TRUE(at::equal(other->run({at::ones({2}), at::ones({2})})[0], at::zeros({2})));
}

TEST_F(SavedSessionTest, BytesThatWereWrittenToAreAnotherModel) {
  const SessionPtr session = load_subtract();
  SessionState state = save_session(session);
  std::get<at::Tensor>(std::get<1>(state).front()).zero_();
  expect_error<OrtError>([&] { return load_session(std::move(state)); }, {"ONNX Runtime: "});
}

TEST_F(SavedSessionTest, SavesInInferenceMode) {
  const c10::InferenceMode guard;
  const SessionPtr session = load_subtract();
  EXPECT_EQ(load_session(save_session(session)), session);
}

TEST_F(SavedSessionTest, SaysWhichProviderIsMissing) {
  SessionState state = save_session(load_subtract());
  std::get<4>(state).emplace_back("NoSuchExecutionProvider", StringDict());
  expect_error<c10::ValueError>([&] { return load_session(std::move(state)); },
                                {"the saved session", "'NoSuchExecutionProvider'",
                                 runtime_version(), "CPUExecutionProvider", "install"});
}

}  // namespace
}  // namespace ortdl::test
