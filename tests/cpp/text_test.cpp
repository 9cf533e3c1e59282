#include <ortdl/session.h>
#include <ortdl/text.h>

#include <string>
#include <string_view>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

using namespace std::string_view_literals;
using Views = std::vector<std::string_view>;

class TextTest : public CountedTest {};

Views all_of(const Text& text) {
  Views views;
  for (size_t i = 0; i < text.size(); ++i) {
    views.push_back(text[i]);
  }
  return views;
}

SessionPtr pass_through(const onnx::Shape& shape) {
  return c10::make_intrusive<Session>(
      SessionConfig{.model = onnx::unary("Identity", onnx::kString, shape)});
}

TEST_F(TextTest, KeepsEveryByte) {
  const std::string big(100'000, 'x');
  const Views strings{"a\0b"sv, ""sv, "\xff\xfe"sv, "\0"sv, big, "\xc3\xa9"sv};
  const ValuePtr value = make_text(strings, {2, 3});
  EXPECT_EQ(value->type_string(), "tensor(string)");
  EXPECT_TRUE(is_text(*value));
  const Text text(*value);
  EXPECT_EQ(text.sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(all_of(text), strings);
}

TEST_F(TextTest, HasAnyShape) {
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{}, {0}, {2, 0}, {0, 3}, {1, 1, 1}, {4}}) {
    const Views strings(static_cast<size_t>(c10::multiply_integers(sizes)), "s"sv);
    const Text text(*make_text(strings, sizes));
    EXPECT_EQ(text.sizes(), at::IntArrayRef(sizes));
    EXPECT_EQ(all_of(text), strings);
  }
}

TEST_F(TextTest, OutlivesTheValue) {
  ValuePtr value = make_text(Views{"one", "two"}, {2});
  const Text text(*value);
  value.reset();
  EXPECT_EQ(all_of(text), (Views{"one", "two"}));
}

TEST_F(TextTest, GoesThroughASession) {
  const SessionPtr session = pass_through(onnx::Shape({"n", 2}));
  const Views strings{"a\0b"sv, "", "c", "\xff"};
  Feeds feeds = session->feeds();
  feeds.set(0, make_text(strings, {2, 2}));
  const Session::Values outputs = session->run_values(feeds, session->all_outputs());
  const Text text(*outputs[0]);
  EXPECT_EQ(text.sizes(), at::IntArrayRef({2, 2}));
  EXPECT_EQ(all_of(text), strings);
}

TEST_F(TextTest, RefusesWhatIsNoText) {
  const ValuePtr number = Value::from_tensor(at::ones({2}));
  EXPECT_FALSE(is_text(*number));
  expect_error<c10::TypeError>([&] { return Text(*number); }, {"tensor(string)", "tensor(float)"});
  expect_error<c10::ValueError>([] { return make_text(Views{"a"}, {2}); }, {"[2]", "2", "1"});
  expect_error<c10::ValueError>([] { return make_text(Views{"a"}, {-1}); }, {"-1"});
}

TEST_F(TextTest, ASessionHoldsItsShapeAgainstTheModel) {
  const SessionPtr session = pass_through(onnx::Shape({"n", 2}));
  const auto give = [&](at::IntArrayRef sizes) {
    return [&session, sizes] {
      Feeds feeds = session->feeds();
      const Views strings(static_cast<size_t>(c10::multiply_integers(sizes)), "s"sv);
      feeds.set(0, make_text(strings, sizes));
    };
  };
  expect_error<c10::ValueError>(give({2}), {"input 'x'", "2 dimensions", "[2]"});
  expect_error<c10::ValueError>(give({1, 3}), {"input 'x'", "size 2 in dimension 1", "[1, 3]"});
}

}  // namespace
}  // namespace ortdl::test
