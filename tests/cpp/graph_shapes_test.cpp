#include <ortdl/graph_shapes.h>
#include <ortdl/session.h>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class GraphShapesTest : public CountedTest {};

using onnx::Shape;

Node node(const std::string& name, std::vector<int64_t> shape, std::vector<std::string> symbols) {
  return {.name = name,
          .type = "tensor(float)",
          .element = &element_type(at::kFloat),
          .shape = std::move(shape),
          .symbols = std::move(symbols)};
}

TEST_F(GraphShapesTest, DescribesWhatAModelDeclares) {
  const GraphShapes shapes({node("a", {-1, 3}, {"n", ""})}, {node("b", {-1}, {""})});
  const std::string expected =
      R"j({"inputs": [{"name": "a", "type": "tensor(float)", "dtype": "float32", )j"
      R"j("device": "cpu", "shape": ["n", 3]}], )j"
      R"j("outputs": [{"name": "b", "type": "tensor(float)", "dtype": "float32", )j"
      R"j("device": "cpu", "shape": [null]}]})j";
  EXPECT_EQ(shapes.json(), expected);
}

TEST_F(GraphShapesTest, EscapesNames) {
  const GraphShapes shapes({node("a\"\\\n", {}, {})}, {});
  EXPECT_NE(shapes.json().find(R"("a\"\\\u000a")"), std::string::npos) << shapes.json();
}

TEST_F(GraphShapesTest, BindsANameToOneSize) {
  const GraphShapes shapes({node("a", {-1}, {"n"}), node("b", {-1}, {"n"})},
                           {node("c", {-1}, {"n"})});
  EXPECT_NO_THROW(shapes.check({at::ones({2}), at::ones({2})}, {at::ones({2})}));
  expect_error<c10::ValueError>(
      [&] { shapes.check({at::ones({2}), at::ones({3})}, {at::ones({2})}); }, {"b", "same name"});
  expect_error<c10::Error>([&] { shapes.check({at::ones({2}), at::ones({2})}, {at::ones({3})}); },
                           {"declares the output", "[3]"});
}

TEST_F(GraphShapesTest, ANameThatOnlyOutputsHaveIsFree) {
  const GraphShapes shapes({node("a", {-1}, {"n"})}, {node("b", {-1}, {"m"})});
  EXPECT_NO_THROW(shapes.check({at::ones({2})}, {at::ones({7})}));
}

TEST_F(GraphShapesTest, KnowsWhichOutputsFollowFromTheInputs) {
  const GraphShapes shapes(
      {node("a", {-1, 3}, {"n", ""}), node("b", {-1}, {""})},
      {node("c", {-1}, {"n"}), node("d", {2, -1}, {"", "n"}), node("e", {-1}, {"m"}),
       node("f", {-1, 3}, {"", ""}), node("g", {}, {}), node("h", {0}, {""})});
  const std::vector<bool> expected{true, true, false, false, false, true};
  for (size_t i = 0; i < expected.size(); ++i) {
    EXPECT_EQ(shapes.determines(i), expected[i]) << i;
  }
}

TEST_F(GraphShapesTest, ASessionKnowsItsOwn) {
  const auto session =
      c10::make_intrusive<Session>(SessionConfig{.model = onnx::add(Shape({"batch", 3}))});
  EXPECT_NE(session->shapes().json().find(R"("shape": ["batch", 3])"), std::string::npos);
}

}  // namespace
}  // namespace ortdl::test
