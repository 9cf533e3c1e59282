#include <ortdl/fork.h>
#include <ortdl/saved_session.h>
#include <sys/wait.h>
#include <unistd.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class ForkTest : public CountedTest {};

// What a forked process that does `work` ends with: 0 if that returns true.
template <typename Work>
int exit_of_child(Work&& work) {
  const pid_t child = fork();
  if (child == 0) {
    alarm(60);  // which ends a child that hangs
    _exit(std::forward<Work>(work)() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(waitpid(child, &status, 0), child);
  return status;
}

SessionPtr subtracting(const char* threads) {
  SessionConfig config{.model = onnx::subtract()};
  config.properties.insert("intra_op_num_threads", threads);
  return c10::make_intrusive<Session>(config);
}

bool subtracts(const SessionPtr& session) {
  return at::equal(session->run({at::ones({2}), at::ones({2})})[0], at::zeros({2}));
}

bool refuses(const SessionPtr& session) {
  try {
    static_cast<void>(subtracts(session));
    return false;
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    return !session->runs_here() && message.find("forked") != std::string::npos;
  }
}

TEST_F(ForkTest, AnObjectKnowsItsProcess) {
  const HomeProcess home;
  EXPECT_TRUE(home.is_here());
  EXPECT_EQ(exit_of_child([&] { return !home.is_here() && HomeProcess().is_here(); }), 0);
  EXPECT_TRUE(home.is_here());
}

TEST_F(ForkTest, ASessionWithThreadsIsRefusedInAChild) {
  const SessionPtr session = subtracting("2");
  EXPECT_EQ(exit_of_child([&] { return refuses(session); }), 0);
  EXPECT_TRUE(subtracts(session));
}

TEST_F(ForkTest, ASessionWithoutThreadsRunsInAChild) {
  const SessionPtr session = subtracting("1");
  EXPECT_EQ(exit_of_child([&] { return subtracts(session); }), 0);
  EXPECT_TRUE(subtracts(session));
}

TEST_F(ForkTest, AChildLetsGoOfSessionsAndMakesOthers) {
  SessionPtr with = subtracting("2");
  SessionPtr without = subtracting("1");
  EXPECT_EQ(exit_of_child([&] {
              with.reset();
              without.reset();
              return live_objects().sessions == 0 && subtracts(subtracting("2"));
            }),
            0);
}

TEST_F(ForkTest, WhatIsSavedInAChildIsLoadedAnew) {
  const SessionPtr session = subtracting("2");
  EXPECT_EQ(exit_of_child([&] { return subtracts(load_session(save_session(session))); }), 0);
}

TEST_F(ForkTest, OnlyOneThreadOfItsOwnIsNone) {
  const auto may_use = [](std::initializer_list<std::pair<const char*, const char*>> properties) {
    SessionConfig config;
    for (const auto& [name, value] : properties) {
      config.properties.insert(name, value);
    }
    return config.may_use_threads();
  };
  EXPECT_TRUE(may_use({}));
  EXPECT_TRUE(may_use({{"intra_op_num_threads", "0"}}));
  EXPECT_TRUE(may_use({{"intra_op_num_threads", "2"}}));
  EXPECT_FALSE(may_use({{"intra_op_num_threads", "1"}}));
  EXPECT_FALSE(may_use({{"intra_op_num_threads", "1"}, {"execution_mode", "0"}}));
  EXPECT_TRUE(may_use({{"intra_op_num_threads", "1"}, {"execution_mode", "1"}}));
  EXPECT_TRUE(may_use({{"intra_op_num_threads", "1"}, {"use_per_session_threads", "0"}}));
}

}  // namespace
}  // namespace ortdl::test
