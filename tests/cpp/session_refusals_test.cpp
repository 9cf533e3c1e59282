#include <ATen/core/grad_mode.h>
#include <ortdl/session.h>

#include <vector>

#include "onnx_bytes.h"
#include "support.h"

namespace ortdl::test {
namespace {

class SessionRefusalsTest : public CountedTest {
 protected:
  // What a run with `inputs` does, for expect_error.
  static auto running(const SessionPtr& session, std::vector<at::Tensor> inputs) {
    return [session, inputs = std::move(inputs)] { return session->run(inputs); };
  }

  SessionPtr load(const at::Tensor& model) {
    return c10::make_intrusive<Session>(SessionConfig{.model = model});
  }
};

using onnx::Shape;
using onnx::tensor_type;

TEST_F(SessionRefusalsTest, ModelsThatAreNone) {
  const auto garbage = [this] { return load(patterned({100}, at::kByte, 7)); };
  EXPECT_EQ(ort_error_code(garbage), ORT_INVALID_PROTOBUF);
  expect_error<OrtError>(garbage, {"ONNX Runtime: ", "INVALID_PROTOBUF"});
  expect_error<OrtError>([this] { return load(at::empty({0}, at::kByte)); }, {"ONNX Runtime: "});
  const auto missing = [] {
    return c10::make_intrusive<Session>(SessionConfig{.path = "no/such/model.onnx"});
  };
  EXPECT_EQ(ort_error_code(missing), ORT_NO_SUCHFILE);
  expect_error<OrtError>(missing, {"no/such/model.onnx"});
  const auto unknown = [this] { return load(onnx::unary("NoSuchOperator")); };
  expect_error<OrtError>(unknown, {"NoSuchOperator"});
  EXPECT_NE(ort_error_code(unknown), ORT_OK);
}

TEST_F(SessionRefusalsTest, AWrongNumberOfInputs) {
  const SessionPtr session = load(onnx::subtract());
  const at::Tensor one = at::ones({1});
  expect_error<c10::ValueError>(running(session, {one}),
                                {"takes 2 inputs, but 1", "left: tensor(float)", "right"});
  expect_error<c10::ValueError>(running(session, {}), {"takes 2 inputs, but 0"});
  expect_error<c10::ValueError>(running(session, {one, one, one}), {"takes 2 inputs, but 3"});
}

TEST_F(SessionRefusalsTest, WrongRanksAndSizes) {
  const SessionPtr session = load(onnx::add(Shape({"n", 3})));
  const at::Tensor right = at::ones({2, 3});
  expect_error<c10::ValueError>(
      running(session, {right, at::ones({3})}),
      {"input 'b'", "2 dimensions", "[3]", "a: tensor(float)[n, 3], b: tensor(float)[n, 3]"});
  expect_error<c10::ValueError>(running(session, {at::ones({2, 4}), right}),
                                {"input 'a'", "size 3 in dimension 1", "[2, 4]", "inputs are"});
  expect_error<c10::ValueError>(running(session, {at::scalar_tensor(1.F), right}),
                                {"input 'a'", "2 dimensions"});
}

TEST_F(SessionRefusalsTest, WrongDtypes) {
  const SessionPtr session = load(onnx::add());
  const at::Tensor right = at::ones({2});
  expect_error<c10::TypeError>(
      running(session, {right, at::ones({2}, at::kDouble)}),
      {"input 'b'", "torch.float32", "torch.float64", "tensor.to(dtype)", "inputs are"});
  expect_error<c10::TypeError>(running(session, {at::ones({2}, at::kComplexFloat), right}),
                               {"input 'a'", "torch.complex64"});
  expect_error<c10::TypeError>(running(session, {at::Tensor(), right}), {"input 'a'", "undefined"});
}

TEST_F(SessionRefusalsTest, InputsWithoutMemory) {
  const SessionPtr session = load(onnx::add());
  const at::Tensor right = at::ones({2});
  const at::Tensor leaf = at::ones({2}).requires_grad_();
  expect_error<c10::BufferError>(running(session, {right, leaf}), {"requires grad"});
  expect_error<c10::BufferError>(running(session, {right.to_sparse(), right}), {"sparse"});
  expect_error<c10::BufferError>(running(session, {at::ones({2}, at::device(at::kMeta)), right}),
                                 {"meta"});
  try {
    static_cast<void>(session->run({right, leaf}));
    ADD_FAILURE() << "nothing was thrown";
  } catch (const c10::BufferError& error) {
    EXPECT_NE(std::string(error.what()).find("input 'b'"), std::string::npos) << error.what();
  }
}

TEST_F(SessionRefusalsTest, InputsThatNoTensorCanBe) {
  const SessionPtr strings = load(onnx::pass_through(onnx::kString));
  expect_error<c10::TypeError>(running(strings, {at::ones({1})}),
                               {"input 'x'", "tensor(string)", "no tensor can be"});
  const SessionPtr packed = load(onnx::pass_through(onnx::kInt4));
  expect_error<c10::TypeError>(running(packed, {at::ones({1}, at::kByte)}),
                               {"input 'x'", "tensor(int4)"});
  const SessionPtr sequence = load(onnx::model({{"SequenceLength", {"s"}, {"n"}}},
                                               {{"s", onnx::sequence_type(tensor_type())}},
                                               {{"n", tensor_type(onnx::kInt64)}}));
  expect_error<c10::TypeError>(running(sequence, {at::ones({1})}),
                               {"input 's'", "seq(tensor(float))"});
}

TEST_F(SessionRefusalsTest, OutputsThatNoTensorCanBe) {
  const std::string tensor = tensor_type(onnx::kFloat, Shape({"n"}));
  struct Other {
    onnx::Operator operation;
    std::string type;
    const char* name;
  };
  const std::vector<Other> others{
      {{"SequenceConstruct", {"x"}, {"other"}}, onnx::sequence_type(tensor), "seq(tensor(float))"},
      {{"Optional", {"x"}, {"other"}}, onnx::optional_type(tensor), "optional(tensor(float))"},
      {{"Cast", {"x"}, {"other"}, {{"to", onnx::kString}}},
       tensor_type(onnx::kString, Shape({"n"})),
       "tensor(string)"},
      {{"Cast", {"x"}, {"other"}, {{"to", onnx::kInt4}}},
       tensor_type(onnx::kInt4, Shape({"n"})),
       "tensor(int4)"}};
  for (const Other& other : others) {
    const SessionPtr session = load(onnx::with_other(other.operation, other.type));
    expect_error<c10::TypeError>(running(session, {at::ones({2})}),
                                 {"output 'other'", other.name, "other outputs"});
    const at::Tensor input = at::tensor({-1.F, 2.F});
    EXPECT_TRUE(at::equal(run_for(*session, {input}, {0}).at(0), at::tensor({0.F, 2.F})));
  }
}

TEST_F(SessionRefusalsTest, AFailureOfTheRuntimeLeavesTheSessionUsable) {
  const SessionPtr session = load(onnx::add());
  const auto misfit = running(session, {at::ones({2}), at::ones({3})});
  expect_error<OrtError>(misfit, {"ONNX Runtime: ", "Add"});
  EXPECT_NE(ort_error_code(misfit), ORT_OK);
  EXPECT_TRUE(at::equal(session->run({at::ones({2}), at::ones({2})})[0], at::full({2}, 2.F)));
}

TEST_F(SessionRefusalsTest, ARefusalHoldsNoInput) {
  const SessionPtr session = load(onnx::add());
  auto freed = std::make_shared<std::atomic<int>>(0);
  expect_error<c10::TypeError>(running(session, {tracked({2}, freed), at::ones({2}, at::kLong)}),
                               {"input 'b'"});
  EXPECT_EQ(*freed, 1);
  expect_error<OrtError>(running(session, {tracked({2}, freed), tracked({3}, freed)}), {"Add"});
  EXPECT_EQ(*freed, 3);
}

}  // namespace
}  // namespace ortdl::test
