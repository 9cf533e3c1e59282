#include <dlfcn.h>
#include <ortdl/runtime.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "support.h"

namespace ortdl::test {
namespace {

const OrtApi* no_table(uint32_t /*version*/) noexcept { return nullptr; }

constexpr OrtApiBase kOtherRuntime{&no_table, []() noexcept { return "1.99.0"; }};
constexpr OrtApiBase kOldRuntime{&no_table, []() noexcept { return "1.22.2"; }};
constexpr OrtApiBase kNextMajor{&no_table, []() noexcept { return "2.30.0"; }};
constexpr OrtApiBase kNoNumber{&no_table, []() noexcept { return "nightly"; }};

const OrtApiBase* real_base() {
  void* library = dlopen(std::getenv("ORTDL_RUNTIME"), RTLD_NOW | RTLD_NOLOAD);
  auto* entry = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  return entry();
}

class RuntimeTest : public CountedTest {};

TEST_F(RuntimeTest, SaysItsVersion) {
  EXPECT_STREQ(real_base()->GetVersionString(), runtime_version().c_str());
}

TEST_F(RuntimeTest, AttachingItAgainDoesNothing) {
  const OrtApi* before = &api();
  attach_runtime(real_base());
  load_runtime(std::getenv("ORTDL_RUNTIME"));
  EXPECT_EQ(&api(), before);
}

TEST_F(RuntimeTest, AttachesFromManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([base = real_base()] { attach_runtime(base); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_STREQ(real_base()->GetVersionString(), runtime_version().c_str());
}

TEST_F(RuntimeTest, RefusesASecondRuntime) {
  const std::string used = runtime_version();
  expect_error<c10::Error>([] { attach_runtime(&kOtherRuntime); },
                           {"a second, different ONNX Runtime", "1.99.0", used, "per process"});
  EXPECT_EQ(runtime_version(), used);
}

TEST_F(RuntimeTest, RefusesNoBase) {
  expect_error<c10::Error>([] { attach_runtime(nullptr); }, {"no OrtApiBase"});
}

TEST_F(RuntimeTest, NamesALibraryThatCannotBeLoaded) {
  expect_error<c10::Error>([] { load_runtime("no/such/libonnxruntime.so"); },
                           {"cannot load", "'no/such/libonnxruntime.so'", "No such file"});
}

TEST_F(RuntimeTest, NamesALibraryThatIsNoRuntime) {
  expect_error<c10::Error>([] { load_runtime("libm.so.6"); },
                           {"'libm.so.6'", "exports no OrtGetApiBase", "libonnxruntime.so"});
}

TEST_F(RuntimeTest, HasOneEnvironment) {
  std::array<OrtEnv*, 8> seen{};
  std::vector<std::thread> threads;
  for (OrtEnv*& mine : seen) {
    threads.emplace_back([&mine] { mine = environment(); });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_NE(seen.front(), nullptr);
  for (const OrtEnv* other : seen) {
    EXPECT_EQ(other, seen.front());
  }
}

TEST_F(RuntimeTest, TurnsAStatusIntoAnException) {
  check_status(nullptr);
  for (int number = ORT_FAIL; number <= ORT_EP_FAIL; ++number) {
    const auto code = static_cast<OrtErrorCode>(number);
    const auto fail = [code] { check_status(api().CreateStatus(code, "what went wrong")); };
    EXPECT_EQ(ort_error_code(fail), code);
    expect_error<OrtError>(fail, {"ONNX Runtime: ", "what went wrong", std::to_string(number)});
  }
}

TEST_F(RuntimeTest, NamesTheCodeOfAStatus) {
  expect_error<OrtError>([] { check_status(api().CreateStatus(ORT_NOT_IMPLEMENTED, "later")); },
                         {"NOT_IMPLEMENTED (9): later"});
  expect_error<OrtError>(
      [] { check_status(api().CreateStatus(static_cast<OrtErrorCode>(99), "what")); },
      {"UNKNOWN (99): what"});
}

// Each test is a process of its own, in which no runtime is attached yet.
class RuntimeDeathTest : public ::testing::Test {
 protected:
  void SetUp() override {
    GTEST_FLAG_SET(death_test_style, "threadsafe");
    setenv("ORTDL_DETACHED", "", 1);
  }
  void TearDown() override { unsetenv("ORTDL_DETACHED"); }
};

// Ends the process: with 0, and the message on stderr, after a c10::Error alone.
template <typename Call>
[[noreturn]] void report_error(Call call) {
  try {
    static_cast<void>(call());
    static_cast<void>(std::fputs("nothing was thrown\n", stderr));
  } catch (const c10::Error& error) {
    static_cast<void>(std::fputs(error.what_without_backtrace(), stderr));
    std::_Exit(runtime_version().empty() ? 0 : 2);
  }
  std::_Exit(1);
}

const auto kSuccess = ::testing::ExitedWithCode(0);

TEST_F(RuntimeDeathTest, AsksForARuntimeFirst) {
  EXPECT_EXIT(report_error([] { return &api(); }), kSuccess,
              "no ONNX Runtime is attached yet.*load_runtime");
}

TEST_F(RuntimeDeathTest, MakesNoValueWithoutOne) {
  EXPECT_EXIT(report_error([] { return Value::from_tensor(at::ones({2})); }), kSuccess,
              "no ONNX Runtime is attached yet");
}

TEST_F(RuntimeDeathTest, RefusesAnOldRuntime) {
  EXPECT_EXIT(report_error([] { attach_runtime(&kOldRuntime); }), kSuccess,
              "ONNX Runtime 1.22.2 is too old: 1.23 or newer");
}

TEST_F(RuntimeDeathTest, RefusesAnUnknownVersion) {
  EXPECT_EXIT(report_error([] { attach_runtime(&kNoNumber); }), kSuccess, "ONNX Runtime nightly");
  EXPECT_EXIT(report_error([] { attach_runtime(&kNextMajor); }), kSuccess, "ONNX Runtime 2.30.0");
}

TEST_F(RuntimeDeathTest, RefusesARuntimeWithoutATable) {
  EXPECT_EXIT(report_error([] { attach_runtime(&kOtherRuntime); }), kSuccess,
              "ONNX Runtime 1.99.0 does not offer API version");
}

TEST_F(RuntimeDeathTest, TakesTheRealOneAfterARefusal) {
  const auto attach = [] {
    try {
      attach_runtime(&kOldRuntime);
    } catch (const c10::Error&) {
      load_runtime(std::getenv("ORTDL_RUNTIME"));
    }
    std::_Exit(runtime_version().empty() ? 1 : 0);
  };
  EXPECT_EXIT(attach(), kSuccess, "");
}

}  // namespace
}  // namespace ortdl::test
