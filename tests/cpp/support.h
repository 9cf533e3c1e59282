#pragma once

#include <ATen/ATen.h>
#include <c10/util/Exception.h>
#include <gtest/gtest.h>
#include <ortdl/ortdl.h>

#include <atomic>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <source_location>
#include <string>
#include <string_view>
#include <typeinfo>
#include <utility>
#include <vector>

/// \file
/// What several test files share.
namespace ortdl::test {

/// Fails a test that leaves one of the library's objects alive.
class CountedTest : public ::testing::Test {
 protected:
  void TearDown() override {
    const LiveObjects now = live_objects();
    EXPECT_EQ(now.values, before_.values) << "values leaked";
    EXPECT_EQ(now.owners, before_.owners) << "storages leaked";
    EXPECT_EQ(now.sessions, before_.sessions) << "sessions leaked";
  }

 private:
  LiveObjects before_ = live_objects();
};

/// Expects `call()` to throw just an `Error`, whose message has all of `words` in it.
template <typename Error, typename Call>
void expect_error(Call&& call, std::initializer_list<std::string_view> words,
                  std::source_location where = std::source_location::current()) {
  const ::testing::ScopedTrace trace(where.file_name(), static_cast<int>(where.line()), "here");
  try {
    static_cast<void>(std::forward<Call>(call)());
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::Error& error) {
    const std::string message = error.what_without_backtrace();
    EXPECT_EQ(typeid(error), typeid(Error)) << message;
    for (const std::string_view word : words) {
      EXPECT_NE(message.find(word), std::string::npos) << "'" << word << "' is not in: " << message;
    }
  }
}

/// The code of the OrtError that `call()` throws.
template <typename Call>
OrtErrorCode ort_error_code(Call&& call) {
  try {
    static_cast<void>(std::forward<Call>(call)());
  } catch (const OrtError& error) {
    return error.code();
  }
  return ORT_OK;
}

/// A contiguous tensor whose bytes count up from `first`, or are 0 and 1 if it is bool.
at::Tensor patterned(at::IntArrayRef sizes, at::ScalarType type, int64_t first = 0);

/// Whether two contiguous tensors have the same dtype, shape and bytes.
bool same_bits(const at::Tensor& left, const at::Tensor& right);

/// A float tensor over memory of its own, which adds one to `freed` when it is released.
at::Tensor tracked(at::IntArrayRef sizes, std::shared_ptr<std::atomic<int>> freed);

/// A value in ONNX Runtime's own memory, its elements not set.
ValueHandle runtime_value(ONNXTensorElementDataType type, at::IntArrayRef sizes);

/// The value that `handle` owns.
ValuePtr held(ValueHandle handle);

/// A value of type `kind` (sequence or map) made of `parts`.
ValueHandle composed(ONNXType kind, std::initializer_list<const ::OrtValue*> parts);

/// A session of `model` on the CPU.
SessionPtr load(const at::Tensor& model);

/// What `session` makes of `inputs`.
std::vector<at::Tensor> run(const SessionPtr& session, const std::vector<at::Tensor>& inputs);

/// What `session` makes of `inputs` for its outputs number `outputs`.
std::vector<at::Tensor> run_for(const Session& session, const std::vector<at::Tensor>& inputs,
                                const std::vector<size_t>& outputs);

}  // namespace ortdl::test
