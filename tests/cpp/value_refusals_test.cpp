#include <ATen/FunctionalTensorWrapper.h>
#include <ATen/core/grad_mode.h>
#include <ATen/functorch/BatchedTensorImpl.h>
#include <ATen/native/Resize.h>
#include <ortdl/value.h>

#include <functional>

#include "support.h"

namespace ortdl::test {
namespace {

class ValueRefusalsTest : public CountedTest {};

// What no copy policy lets through.
template <typename Error>
void expect_refused(const at::Tensor& tensor, std::initializer_list<std::string_view> words) {
  for (const Copy copy : {Copy::kNever, Copy::kIfNeeded, Copy::kAlways}) {
    expect_error<Error>([&] { return Value::from_tensor(tensor, copy); }, words);
  }
}

TEST_F(ValueRefusalsTest, UndefinedTensors) {
  expect_refused<c10::TypeError>(at::Tensor(), {"undefined tensor"});
}

TEST_F(ValueRefusalsTest, TensorsThatRequireGrad) {
  const at::Tensor tensor = at::ones({2}).requires_grad_();
  expect_refused<c10::BufferError>(tensor, {"requires grad", "detach()", "no_grad"});
  expect_refused<c10::BufferError>(tensor.mul(2), {"requires grad"});
  EXPECT_EQ(Value::from_tensor(tensor.detach())->data(), tensor.data_ptr());
  const at::NoGradGuard no_grad;
  const ValuePtr value = Value::from_tensor(tensor);
  EXPECT_EQ(value->data(), tensor.data_ptr());
  EXPECT_FALSE(value->to_tensor().requires_grad());
  EXPECT_FALSE(Value::from_tensor(tensor, Copy::kAlways)->to_tensor().requires_grad());
}

TEST_F(ValueRefusalsTest, LazyElementsThatMayNotBeCopied) {
  for (const at::Tensor& tensor :
       {at::ones({2})._neg_view(), at::_efficientzerotensor({2}, at::TensorOptions(at::kFloat))}) {
    expect_error<c10::BufferError>([&] { return Value::from_tensor(tensor); },
                                   {"resolve_neg()", "copy=None"});
    EXPECT_TRUE(at::equal(Value::from_tensor(tensor, Copy::kIfNeeded)->to_tensor(),
                          tensor.is_neg() ? at::full({2}, -1.F) : at::zeros({2})));
  }
}

TEST_F(ValueRefusalsTest, TensorsThatAreNoDenseArray) {
  const at::Tensor dense = at::eye(4);
  expect_refused<c10::BufferError>(dense.to_sparse(), {"sparse", "to_dense()"});
  expect_refused<c10::BufferError>(dense.to_sparse_csr(), {"sparse", "to_dense()"});
  expect_refused<c10::BufferError>(at::_nested_tensor_from_tensor_list({dense, dense}),
                                   {"nested", "to_padded_tensor"});
  expect_refused<c10::BufferError>(dense.to_mkldnn(), {"MKL-DNN", "to_dense()"});
}

TEST_F(ValueRefusalsTest, TensorsWithoutMemoryOfTheirOwn) {
  expect_refused<c10::BufferError>(at::ones({2}, at::device(at::kMeta)), {"meta device"});
  expect_refused<c10::BufferError>(at::functionalization::impl::to_functional_tensor(at::ones({2})),
                                   {"functional"});
  expect_refused<c10::BufferError>(at::functorch::makeBatched(at::ones({2, 3}), 0, 1),
                                   {"torch.func", "vmap"});
}

TEST_F(ValueRefusalsTest, DtypesWithoutACounterpart) {
  expect_refused<c10::TypeError>(at::ones({2}, at::kComplexFloat), {"complex64", "view_as_real"});
  expect_refused<c10::TypeError>(at::ones({2}, at::kComplexFloat).conj(), {"complex64"});
  expect_refused<c10::TypeError>(at::quantize_per_tensor(at::ones({2}), 0.1, 0, at::kQInt8),
                                 {"quantized", "int_repr()"});
  expect_refused<c10::TypeError>(at::empty({2}, at::kBits8), {"bits8", "torch.uint8"});
  expect_refused<c10::TypeError>(at::empty({2}, at::ScalarType::Int4), {"int4", "from_packed"});
}

TEST_F(ValueRefusalsTest, StoragesThatWereResized) {
  const at::Tensor tensor = at::ones({4});
  const at::Tensor strided = tensor.as_strided({2, 2}, {1, 2});
  at::native::resize_bytes_nocuda(tensor.storage(), 8);
  expect_refused<c10::BufferError>(tensor, {"storage has 8 bytes", "(16)"});
  expect_refused<c10::BufferError>(strided, {"storage has 8 bytes"});
  EXPECT_EQ(Value::from_tensor(tensor.narrow(0, 0, 2))->nbytes(), 8U);
  const at::Tensor emptied = at::ones({4});
  at::native::resize_bytes_nocuda(emptied.storage(), 0);
  expect_refused<c10::BufferError>(emptied, {"storage has 0 bytes"});
}

// Values that ONNX Runtime can hold and PyTorch can't.
void expect_no_tensor(const ValuePtr& value, const char* type, const char* word) {
  EXPECT_EQ(value->type_string(), type);
  const std::vector<std::function<void()>> reads{
      [&] { static_cast<void>(value->to_tensor()); },
      [&] { static_cast<void>(value->to_tensor(Copy::kAlways)); },
      [&] { static_cast<void>(value->packed()); },
      [&] { static_cast<void>(value->type()); },
      [&] { static_cast<void>(value->data()); },
      [&] { static_cast<void>(value->nbytes()); }};
  for (const std::function<void()>& read : reads) {
    expect_error<c10::TypeError>(read, {type, word, "onnxruntime"});
  }
  value->bump_version();
}

TEST_F(ValueRefusalsTest, Strings) {
  const ValuePtr value = held(runtime_value(ONNX_TENSOR_ELEMENT_DATA_TYPE_STRING, {2, 3}));
  EXPECT_TRUE(value->is_tensor());
  EXPECT_TRUE(value->has_value());
  EXPECT_EQ(value->sizes(), at::IntArrayRef({2, 3}));
  EXPECT_EQ(value->device(), at::Device(at::kCPU));
  expect_no_tensor(value, "tensor(string)", "no counterpart");
}

TEST_F(ValueRefusalsTest, Sequences) {
  const ValuePtr part = Value::from_tensor(at::ones({2}));
  const ValuePtr value = held(composed(ONNX_TYPE_SEQUENCE, {part->handle(), part->handle()}));
  EXPECT_FALSE(value->is_tensor());
  EXPECT_EQ(value->kind(), ONNX_TYPE_SEQUENCE);
  EXPECT_TRUE(value->has_value());
  expect_no_tensor(value, "seq(tensor(float))", "not a tensor");
  expect_error<c10::TypeError>([&] { return value->sizes(); }, {"seq(tensor(float))"});
  expect_error<c10::TypeError>([&] { return value->device(); }, {"seq(tensor(float))"});
}

TEST_F(ValueRefusalsTest, Maps) {
  const ValuePtr keys = Value::from_tensor(at::arange(2, at::kLong));
  const ValuePtr parts = Value::from_tensor(at::ones({2}));
  const ValuePtr value = held(composed(ONNX_TYPE_MAP, {keys->handle(), parts->handle()}));
  EXPECT_EQ(value->kind(), ONNX_TYPE_MAP);
  expect_no_tensor(value, "map(int64,tensor(float))", "not a tensor");
}

TEST_F(ValueRefusalsTest, SparseValues) {
  OrtAllocator* allocator = nullptr;
  check_status(api().GetAllocatorWithDefaultOptions(&allocator));
  constexpr int64_t size = 9;
  ::OrtValue* raw = nullptr;
  check_status(api().CreateSparseTensorAsOrtValue(allocator, &size, 1,
                                                  ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, &raw));
  const ValuePtr value = held(ValueHandle(raw));
  EXPECT_EQ(value->kind(), ONNX_TYPE_SPARSETENSOR);
  expect_no_tensor(value, "sparse_tensor(float)", "not a tensor");
}

}  // namespace
}  // namespace ortdl::test
