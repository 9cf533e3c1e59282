#include <ortdl/node.h>
#include <ortdl/session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class NodeTest : public CountedTest {};

using onnx::Shape;
using onnx::tensor_type;

TEST_F(NodeTest, ReadsNamesTypesAndShapes) {
  const SessionPtr session =
      load(onnx::model({{"Identity", {"first"}, {"y"}}, {"Identity", {"second"}, {"z"}}},
                       {{"first", tensor_type(onnx::kFloat, Shape({"batch", 3}))},
                        {"second", tensor_type(onnx::kInt64, Shape({""}))}},
                       {{"y"}, {"z", tensor_type(onnx::kInt64)}}));
  const std::vector<Node>& inputs = session->inputs();
  ASSERT_EQ(inputs.size(), 2U);
  EXPECT_EQ(inputs[0].name, "first");
  EXPECT_EQ(inputs[0].type, "tensor(float)");
  EXPECT_EQ(inputs[0].element, find_element_type(at::kFloat));
  EXPECT_EQ(inputs[0].shape, (std::vector<int64_t>{-1, 3}));
  EXPECT_EQ(inputs[0].symbols, (std::vector<std::string>{"batch", ""}));
  EXPECT_EQ(inputs[1].element, find_element_type(at::kLong));
  EXPECT_EQ(describe(inputs), "first: tensor(float)[batch, 3], second: tensor(int64)[?]");
  EXPECT_EQ(session->outputs()[1].name, "z");
  EXPECT_EQ(describe({}), "(none)");
}

TEST_F(NodeTest, ReadsScalars) {
  const SessionPtr session = load(onnx::add(Shape(std::vector<onnx::Dimension>{})));
  EXPECT_TRUE(session->inputs()[0].shape.empty());
  EXPECT_EQ(session->inputs()[0].describe(), "a: tensor(float)[]");
}

TEST_F(NodeTest, LeavesWeightsOutOfTheInputs) {
  const SessionPtr session =
      load(onnx::model({{"Add", {"x", "w"}, {"y"}}}, {{"x"}}, {{"y"}}, {{"w", at::ones({2})}}));
  ASSERT_EQ(session->inputs().size(), 1U);
  EXPECT_EQ(session->inputs()[0].name, "x");
}

TEST_F(NodeTest, NamesTypesThatAreNoTensors) {
  const std::string tensor = tensor_type(onnx::kFloat, Shape({"n"}));
  const auto other = [](const char* operation, const std::string& type) {
    return load(onnx::with_other({operation, {"x"}, {"other"}}, type))->outputs().at(1);
  };
  const Node sequence = other("SequenceConstruct", onnx::sequence_type(tensor));
  EXPECT_EQ(sequence.type, "seq(tensor(float))");
  EXPECT_EQ(sequence.element, nullptr);
  const Node optional = other("Optional", onnx::optional_type(tensor));
  EXPECT_EQ(optional.type, "optional(tensor(float))");
  EXPECT_EQ(optional.element, nullptr);
}

TEST_F(NodeTest, KnowsPackedAndStringTensors) {
  const auto cast = [](int32_t type) {
    return load(onnx::with_other({"Cast", {"x"}, {"other"}, {{"to", type}}},
                                 tensor_type(type, Shape({"n"}))))
        ->outputs()
        .at(1);
  };
  EXPECT_EQ(cast(onnx::kString).element, nullptr);
  EXPECT_EQ(cast(onnx::kString).describe(), "other: tensor(string)[n]");
  EXPECT_EQ(cast(onnx::kInt4).element, &element_type_from_onnx(onnx::kInt4));
}

TEST_F(NodeTest, FindsNodesByName) {
  const SessionPtr session = load(onnx::subtract());
  EXPECT_EQ(session->input_index("left"), 0U);
  EXPECT_EQ(session->input_index("right"), 1U);
  EXPECT_EQ(session->output_index("difference"), 0U);
  expect_error<c10::ValueError>([&] { return session->input_index("lefd"); },
                                {"no input named 'lefd'", "left: tensor(float)", "right"});
  expect_error<c10::ValueError>([&] { return session->output_index("left"); },
                                {"no output named 'left'", "difference: tensor(float)"});
}

}  // namespace
}  // namespace ortdl::test
