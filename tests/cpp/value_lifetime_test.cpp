#include <ATen/native/Resize.h>
#include <ortdl/value.h>

#include <algorithm>
#include <array>
#include <functional>
#include <thread>
#include <vector>

#include "support.h"

namespace ortdl::test {
namespace {

class ValueLifetimeTest : public CountedTest {
 protected:
  std::shared_ptr<std::atomic<int>> freed_ = std::make_shared<std::atomic<int>>(0);
};

TEST_F(ValueLifetimeTest, TenThousandRoundTripsLeaveNothing) {
  const LiveObjects before = live_objects();
  for (int i = 0; i < 10'000; ++i) {
    at::Tensor tensor = tracked({3}, freed_);
    tensor.fill_(i);
    const at::Tensor back = Value::from_tensor(tensor)->to_tensor();
    tensor.reset();
    ASSERT_EQ(back[2].item<float>(), static_cast<float>(i));
  }
  EXPECT_EQ(*freed_, 10'000);
  EXPECT_EQ(live_objects().values, before.values);
  EXPECT_EQ(live_objects().owners, before.owners);
}

TEST_F(ValueLifetimeTest, RoundTripsOfOneTensorNest) {
  at::Tensor tensor = tracked({4}, freed_).fill_(5);
  const void* data = tensor.data_ptr();
  const int64_t owners = live_objects().owners;
  for (int i = 0; i < 1'000; ++i) {
    tensor = Value::from_tensor(tensor)->to_tensor();
  }
  EXPECT_EQ(tensor.data_ptr(), data);
  EXPECT_EQ(live_objects().owners, owners + 1'000);
  EXPECT_EQ(*freed_, 0);
  tensor.reset();
  EXPECT_EQ(*freed_, 1);
}

TEST_F(ValueLifetimeTest, WhicheverGoesLastFreesTheMemoryOnce) {
  std::array order{0, 1, 2};
  int rounds = 0;
  do {
    at::Tensor tensor = tracked({2}, freed_).fill_(6);
    ValuePtr value = Value::from_tensor(tensor);
    at::Tensor back = value->to_tensor();
    const std::array<std::function<void()>, 3> drop{[&] { tensor.reset(); }, [&] { value.reset(); },
                                                    [&] { back.reset(); }};
    for (const int which : order) {
      EXPECT_EQ(*freed_, rounds);
      drop.at(static_cast<size_t>(which))();
      if (value != nullptr) {
        EXPECT_EQ(static_cast<const float*>(value->data())[1], 6);
      }
      if (back.defined()) {
        EXPECT_EQ(back[1].item<float>(), 6);
      }
    }
    EXPECT_EQ(*freed_, ++rounds);
  } while (std::ranges::next_permutation(order).found);
  EXPECT_EQ(rounds, 6);
}

TEST_F(ValueLifetimeTest, TheRuntimesOwnReferenceHoldsTheMemory) {
  ValuePtr value = Value::from_tensor(tracked({2}, freed_));
  const int64_t owners = live_objects().owners;
  ValueHandle sequence = composed(ONNX_TYPE_SEQUENCE, {value->handle()});
  value.reset();
  EXPECT_EQ(live_objects().owners, owners);
  EXPECT_EQ(*freed_, 0);
  sequence.reset();
  EXPECT_EQ(live_objects().owners, owners - 1);
  EXPECT_EQ(*freed_, 1);
}

TEST_F(ValueLifetimeTest, TensorsHoldTheRuntimesMemory) {
  const int64_t values = live_objects().values;
  ValuePtr value = held(runtime_value(ONNX_TENSOR_ELEMENT_DATA_TYPE_FLOAT, {1000}));
  at::Tensor tensor = value->to_tensor();
  at::Tensor bytes = value->packed();
  value.reset();
  tensor.fill_(2);
  EXPECT_EQ(tensor.sum().item<float>(), 2000);
  tensor.reset();
  EXPECT_EQ(live_objects().values, values + 1);
  EXPECT_EQ(bytes.numel(), 4000);
  bytes.reset();
  EXPECT_EQ(live_objects().values, values);
}

TEST_F(ValueLifetimeTest, ViewsHoldTheMemory) {
  at::Tensor part = Value::from_tensor(tracked({4}, freed_).fill_(3))->to_tensor().narrow(0, 2, 1);
  EXPECT_EQ(part.item<float>(), 3);
  EXPECT_EQ(*freed_, 0);
  part.reset();
  EXPECT_EQ(*freed_, 1);
}

TEST_F(ValueLifetimeTest, FreesMemoryOfEveryShapeOnce) {
  int expected = 0;
  for (const std::vector<int64_t>& sizes :
       std::vector<std::vector<int64_t>>{{}, {0}, {2, 0}, {1, 1}, {5}}) {
    Value::from_tensor(tracked(sizes, freed_))->to_tensor().reset();
    EXPECT_EQ(*freed_, ++expected) << at::IntArrayRef(sizes);
  }
}

TEST_F(ValueLifetimeTest, ACopyHoldsNothingOfTheSource) {
  const ValuePtr value = Value::from_tensor(tracked({2}, freed_).fill_(4), Copy::kAlways);
  EXPECT_EQ(*freed_, 1);
  EXPECT_EQ(value->to_tensor()[0].item<float>(), 4);
}

TEST_F(ValueLifetimeTest, ARefusalHoldsNothing) {
  const auto refused = [this] { return Value::from_tensor(tracked({2, 3}, freed_).t()); };
  expect_error<c10::ValueError>(refused, {"not contiguous"});
  EXPECT_EQ(*freed_, 1);
  const auto misfit = [this] {
    return Value::from_packed(tracked({2}, freed_).view(at::kByte), element_type_from_onnx(22),
                              {3});
  };
  expect_error<c10::ValueError>(misfit, {"takes 2 bytes"});
  EXPECT_EQ(*freed_, 2);
}

TEST_F(ValueLifetimeTest, DiesOnAnyThread) {
  for (int i = 0; i < 50; ++i) {
    at::Tensor tensor = tracked({2}, freed_);
    ValuePtr value = Value::from_tensor(tensor);
    at::Tensor back = value->to_tensor();
    std::thread first([mine = std::move(tensor)]() mutable { mine.reset(); });
    std::thread second([mine = std::move(value)]() mutable { mine.reset(); });
    std::thread third([mine = std::move(back)]() mutable { mine.reset(); });
    first.join();
    second.join();
    third.join();
    EXPECT_EQ(*freed_, i + 1);
  }
}

TEST_F(ValueLifetimeTest, ThreadsConvertOneValueAtOnce) {
  const ValuePtr value = Value::from_tensor(tracked({8}, freed_).fill_(9));
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        const at::Tensor tensor = value->to_tensor();
        right += Value::from_tensor(tensor)->to_tensor().data_ptr() == value->data() ? 1 : 0;
      }
    });
  }
  for (std::thread& thread : threads) {
    thread.join();
  }
  EXPECT_EQ(right, 8 * 500);
}

TEST_F(ValueLifetimeTest, KeepsTheOldMemoryOfARepointedTensor) {
  const std::vector<std::function<void(at::Tensor&)>> repoint{
      [](at::Tensor& tensor) { tensor.set_data(at::zeros({2})); },
      [](at::Tensor& tensor) { tensor.set_(at::zeros({2})); },
      [](at::Tensor& tensor) { tensor.set_(); },
      [](at::Tensor& tensor) {
        tensor.unsafeGetTensorImpl()->set_storage_keep_dtype(at::zeros({2}).storage());
      }};
  int expected = 0;
  for (const auto& change : repoint) {
    at::Tensor tensor = tracked({2}, freed_).fill_(7);
    ValuePtr value = Value::from_tensor(tensor);
    change(tensor);
    EXPECT_NE(tensor.data_ptr(), value->data());
    EXPECT_EQ(value->to_tensor()[1].item<float>(), 7);
    EXPECT_EQ(*freed_, expected);
    value.reset();
    EXPECT_EQ(*freed_, ++expected);
  }
}

TEST_F(ValueLifetimeTest, PyTorchRefusesToResizeASharedStorage) {
  at::Tensor tensor = at::full({4}, 2.F);
  const ValuePtr value = Value::from_tensor(tensor);
  expect_error<c10::Error>([&] { at::native::resize_bytes_nocuda(tensor.storage(), 0); },
                           {"not resizable"});
  expect_error<c10::Error>([&] { tensor.resize_({1000}); }, {"not resizable"});
  at::Tensor back = value->to_tensor();
  expect_error<c10::Error>([&] { back.resize_({1000}); }, {"not resizable"});
  EXPECT_EQ(value->to_tensor()[3].item<float>(), 2);
  at::Tensor copied = at::ones({4});
  static_cast<void>(Value::from_tensor(copied, Copy::kAlways));
  EXPECT_EQ(copied.resize_({1000}).numel(), 1000);
}

}  // namespace
}  // namespace ortdl::test
