#include <ortdl/empty_sequence.h>
#include <ortdl/sequence.h>
#include <ortdl/session.h>
#include <ortdl/text.h>

#include <array>
#include <string>
#include <string_view>
#include <vector>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class SequenceTest : public CountedTest {};

using onnx::optional_type;
using onnx::sequence_type;
using onnx::tensor_type;

SessionPtr identity(const std::string& type) {
  return c10::make_intrusive<Session>(SessionConfig{
      .model = onnx::model({{"Identity", {"x"}, {"y"}}}, {{"x", type}}, {{"y", type}})});
}

ValuePtr pass(const SessionPtr& session, ValuePtr value) {
  Feeds feeds = session->feeds();
  feeds.set(0, std::move(value));
  return session->run_values(feeds, session->all_outputs())[0];
}

TEST_F(SequenceTest, SharesAndKeepsItsTensors) {
  auto freed = std::make_shared<std::atomic<int>>(0);
  at::Tensor first = tracked({2}, freed).fill_(1);
  const at::Tensor second = at::full({1, 3}, 2.F);
  ValuePtr sequence = make_sequence({Value::from_tensor(first), Value::from_tensor(second)});
  EXPECT_EQ(sequence->kind(), ONNX_TYPE_SEQUENCE);
  EXPECT_EQ(sequence->type_string(), "seq(tensor(float))");
  first.fill_(5);
  first.reset();
  EXPECT_EQ(*freed, 0);
  const std::vector<ValuePtr> items = parts(*sequence);
  ASSERT_EQ(items.size(), 2U);
  EXPECT_TRUE(at::equal(items[0]->to_tensor(), at::full({2}, 5.F)));
  EXPECT_TRUE(at::equal(items[1]->to_tensor(), second));
  EXPECT_NE(items[1]->data(), second.data_ptr());
  sequence.reset();
  EXPECT_EQ(*freed, 1);
}

TEST_F(SequenceTest, GoesThroughASession) {
  const SessionPtr session = identity(sequence_type(tensor_type()));
  const at::Tensor tensor = at::rand({2, 3});
  const std::vector<ValuePtr> items =
      parts(*pass(session, make_sequence({Value::from_tensor(tensor)})));
  ASSERT_EQ(items.size(), 1U);
  EXPECT_TRUE(at::equal(items[0]->to_tensor(), tensor));
}

TEST_F(SequenceTest, HoldsStrings) {
  const std::array<std::string_view, 2> strings{"a", "b"};
  const SessionPtr session = identity(sequence_type(tensor_type(onnx::kString)));
  const ValuePtr result = pass(session, make_sequence({make_text(strings, {2})}));
  EXPECT_EQ(result->type_string(), "seq(tensor(string))");
  const Text text(*parts(*result).at(0));
  EXPECT_EQ(text.sizes(), at::IntArrayRef({2}));
  EXPECT_EQ(text[1], "b");
}

TEST_F(SequenceTest, MayBeEmpty) {
  for (const char* type : {"seq(tensor(float))", "seq(tensor(string))", "seq(tensor(bfloat16))"}) {
    const ValuePtr empty = empty_sequence(type);
    EXPECT_EQ(empty->kind(), ONNX_TYPE_SEQUENCE);
    EXPECT_EQ(empty->type_string(), type);
    EXPECT_TRUE(parts(*empty).empty());
  }
  EXPECT_TRUE(
      parts(*pass(identity(sequence_type(tensor_type())), empty_sequence("seq(tensor(float))")))
          .empty());
  EXPECT_NE(ort_error_code([] { return make_sequence({}); }), ORT_OK);
}

TEST_F(SequenceTest, OptionalValuesHoldSomethingOrNothing) {
  for (const std::string& inner : {tensor_type(), sequence_type(tensor_type())}) {
    const SessionPtr session = identity(optional_type(inner));
    const std::string& type = session->inputs()[0].type;
    const ValuePtr nothing = held(ValueHandle());
    EXPECT_FALSE(nothing->has_value());
    EXPECT_FALSE(pass(session, nothing)->has_value());
    ValuePtr tensor = Value::from_tensor(at::ones({2}));
    const ValuePtr something = type == "optional(tensor(float))" ? tensor : make_sequence({tensor});
    EXPECT_TRUE(pass(session, something)->has_value());
    // What a session gave can be given to another.
    EXPECT_TRUE(pass(session, pass(session, something))->has_value());
    EXPECT_FALSE(pass(session, pass(session, nothing))->has_value());
    expect_error<c10::TypeError>(
        [&] { return pass(session, Value::from_tensor(at::ones({2}, at::kDouble))); },
        {"input 'x'", type, "tensor(double)"});
  }
}

TEST_F(SequenceTest, NothingIsNoTensor) {
  const ValuePtr nothing = held(ValueHandle());
  EXPECT_EQ(nothing->type_string(), "optional()");
  EXPECT_FALSE(nothing->is_tensor());
  expect_error<c10::TypeError>([&] { return nothing->to_tensor(); }, {"optional()"});
  for (const std::string& type : {tensor_type(), sequence_type(tensor_type())}) {
    const SessionPtr session = identity(type);
    expect_error<c10::TypeError>([&] { return pass(session, nothing); },
                                 {"input 'x'", session->inputs()[0].type, "optional()"});
  }
}

TEST_F(SequenceTest, NothingIsGivenOnce) {
  const SessionPtr session = identity(optional_type(tensor_type()));
  Feeds feeds = session->feeds();
  expect_error<c10::ValueError>([&] { feeds.require_all(); }, {"input 'x'", "not given"});
  feeds.set(0, held(ValueHandle()));
  feeds.require_all();
  expect_error<c10::ValueError>([&] { feeds.set(0, held(ValueHandle())); },
                                {"input 'x'", "given twice"});
}

TEST_F(SequenceTest, MapsHaveKeysAndValues) {
  const std::array<std::string_view, 2> names{"b", "a"};
  const ValuePtr map =
      make_map(*make_text(names, {2}), *Value::from_tensor(at::tensor({1.F, 2.F})));
  EXPECT_EQ(map->kind(), ONNX_TYPE_MAP);
  const std::vector<ValuePtr> two = parts(*map);
  ASSERT_EQ(two.size(), 2U);
  const Text keys(*two[0]);
  EXPECT_EQ(keys[0], "a");
  EXPECT_EQ(keys[1], "b");
  EXPECT_TRUE(at::equal(two[1]->to_tensor(), at::tensor({2.F, 1.F})));
  const ValuePtr maps = make_sequence({map, map});
  EXPECT_EQ(parts(*maps).size(), 2U);
  EXPECT_EQ(parts(*parts(*maps)[1]).size(), 2U);
}

TEST_F(SequenceTest, RefusesByName) {
  const ValuePtr tensor = Value::from_tensor(at::ones({2}));
  expect_error<c10::TypeError>([&] { return parts(*tensor); }, {"tensor(float)"});
  for (const char* type : {"tensor(float)", "seq(map(int64,tensor(float)))", "", "seq"}) {
    expect_error<c10::TypeError>([&] { return empty_sequence(type); }, {"sequence", type});
  }
  const ValuePtr other = Value::from_tensor(at::ones({2}, at::kLong));
  EXPECT_NE(ort_error_code([&] { return make_sequence({tensor, other}); }), ORT_OK);
  EXPECT_NE(ort_error_code([&] { return make_map(*tensor, *other); }), ORT_OK);
  EXPECT_EQ(ort_error_code([] { return empty_sequence("seq(tensor(float8e5m2))"); }),
            ORT_NOT_IMPLEMENTED);
}

}  // namespace
}  // namespace ortdl::test
