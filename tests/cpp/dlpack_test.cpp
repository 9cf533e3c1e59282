#include <ortdl/dlpack.h>

#include <bit>
#include <numeric>
#include <thread>

#include "support.h"

// DLPack structs to values and back, without Python's capsules.
namespace ortdl::test {
namespace {

// A producer's struct over `data`, which counts the calls of its deleter.
template <typename Managed>
struct Producer {
  std::vector<float> data = std::vector<float>(12);
  std::vector<int64_t> sizes{3, 4};
  std::vector<int64_t> strides{4, 1};
  Managed managed{};  // NOLINT(bugprone-invalid-enum-default-initialization): filled in below
  int released = 0;

  Producer() {
    std::iota(data.begin(), data.end(), 0.F);
    managed.dl_tensor = {.data = data.data(),
                         .device = {.device_type = kDLCPU, .device_id = 0},
                         .ndim = 2,
                         .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
                         .shape = sizes.data(),
                         .strides = strides.data(),
                         .byte_offset = 0};
    managed.manager_ctx = this;
    managed.deleter = [](Managed* self) { ++static_cast<Producer*>(self->manager_ctx)->released; };
    if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
      managed.version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION};
    }
  }

  ValuePtr take(Copy copy = Copy::kIfNeeded) { return from_dlpack(ManagedTensor(&managed), copy); }
};

using Versioned = Producer<DLManagedTensorVersioned>;

template <typename Managed>
class DlpackImportTest : public CountedTest {};

using Structs = ::testing::Types<DLManagedTensor, DLManagedTensorVersioned>;
TYPED_TEST_SUITE(DlpackImportTest, Structs);

TYPED_TEST(DlpackImportTest, SharesMemoryUntilTheLastViewIsGone) {
  Producer<TypeParam> producer;
  validate_dlpack(producer.managed.dl_tensor, 0, Copy::kNever);
  ValuePtr value = producer.take(Copy::kNever);
  EXPECT_EQ(value->data(), producer.data.data());
  at::Tensor view = value->to_tensor()[2];
  value.reset();
  EXPECT_EQ(producer.released, 0);
  EXPECT_EQ(view[3].template item<float>(), 11);
  std::thread([last = std::move(view)]() mutable { last.reset(); }).join();
  EXPECT_EQ(producer.released, 1);
}

TYPED_TEST(DlpackImportTest, ReadsStridesOffsetsAndMissingStrides) {
  Producer<TypeParam> reversed;
  reversed.managed.dl_tensor.byte_offset = 11 * sizeof(float);
  reversed.strides = {-4, -1};
  const at::Tensor expected = at::arange(12, at::kFloat).view({3, 4}).flip({0, 1});
  EXPECT_TRUE(at::equal(reversed.take()->to_tensor(), expected));
  EXPECT_EQ(reversed.released, 1) << "a copy needs the producer no more";

  Producer<TypeParam> transposed;
  transposed.sizes = {4, 3};
  transposed.strides = {1, 4};
  EXPECT_TRUE(
      at::equal(transposed.take()->to_tensor(), at::arange(12, at::kFloat).view({3, 4}).t()));

  Producer<TypeParam> compact;
  compact.managed.dl_tensor.strides = nullptr;
  const ValuePtr value = compact.take(Copy::kNever);
  EXPECT_EQ(value->data(), compact.data.data());
}

TYPED_TEST(DlpackImportTest, IgnoresTheStrideOfADimensionOfSizeOne) {
  Producer<TypeParam> producer;
  producer.sizes = {1, 2};
  producer.strides = {int64_t{1} << 62, 2};
  validate_dlpack(producer.managed.dl_tensor, 0, Copy::kIfNeeded);
  EXPECT_TRUE(at::equal(producer.take()->to_tensor(), at::tensor({0.F, 2.F}).view({1, 2})));
}

TYPED_TEST(DlpackImportTest, ReversesTheLastOf64Dimensions) {
  Producer<TypeParam> producer;
  producer.sizes = std::vector<int64_t>(64, 1);
  producer.sizes.back() = 3;
  producer.strides = std::vector<int64_t>(64, 7);
  producer.strides.back() = -1;
  producer.managed.dl_tensor.ndim = 64;
  producer.managed.dl_tensor.shape = producer.sizes.data();
  producer.managed.dl_tensor.strides = producer.strides.data();
  producer.managed.dl_tensor.byte_offset = 2 * sizeof(float);
  EXPECT_TRUE(at::equal(producer.take()->to_tensor().flatten(), at::tensor({2.F, 1.F, 0.F})));
}

TYPED_TEST(DlpackImportTest, RefusesStridesOutOfTheAddressSpace) {
  for (const int64_t stride : {int64_t{1} << 55, -(int64_t{1} << 55)}) {
    Producer<TypeParam> producer;
    producer.managed.dl_tensor.data = std::bit_cast<void*>(stride > 0 ? UINTPTR_MAX - 63 : 64);
    producer.sizes = {1, 2};
    producer.strides = {1, stride};
    expect_error<c10::ValueError>(
        [&] { validate_dlpack(producer.managed.dl_tensor, 0, Copy::kIfNeeded); },
        {"address space"});
    EXPECT_EQ(producer.released, 0);
  }
}

TYPED_TEST(DlpackImportTest, RefusesADenseTensorThatEndsOutOfTheAddressSpace) {
  for (const bool with_strides : {true, false}) {
    Producer<TypeParam> producer;
    producer.managed.dl_tensor.data = std::bit_cast<void*>(UINTPTR_MAX - 15);
    producer.sizes = {2, 3};
    producer.strides = {3, 1};
    if (!with_strides) {
      producer.managed.dl_tensor.strides = nullptr;
    }
    for (const Copy copy : {Copy::kNever, Copy::kIfNeeded}) {
      expect_error<c10::ValueError>([&] { validate_dlpack(producer.managed.dl_tensor, 0, copy); },
                                    {"address space"});
    }
    EXPECT_EQ(producer.released, 0);
  }
}

TYPED_TEST(DlpackImportTest, ReleasesNothingThatItRefuses) {
  Producer<TypeParam> producer;
  producer.strides = {1, 3};
  expect_error<c10::ValueError>(
      [&] { validate_dlpack(producer.managed.dl_tensor, 0, Copy::kNever); },
      {"not contiguous", "copy=None"});
  EXPECT_EQ(producer.released, 0);
}

TYPED_TEST(DlpackImportTest, AcceptsANullDeleter) {
  Producer<TypeParam> producer;
  producer.managed.deleter = nullptr;
  EXPECT_EQ(producer.take()->to_tensor().sum().template item<float>(), 66);
}

class DlpackTest : public CountedTest {};

TEST_F(DlpackTest, KeepsReadOnly) {
  Versioned producer;
  producer.managed.flags = kDlpackReadOnly;
  const ValuePtr value = producer.take();
  EXPECT_TRUE(value->read_only());
  expect_error<c10::BufferError>([&] { return value->to_tensor(); }, {"read-only", "copy=True"});
  expect_error<c10::BufferError>([&] { return value->packed(); }, {"read-only"});
  expect_error<c10::BufferError>([&] { return to_dlpack_legacy(value); }, {"read-only"});
  EXPECT_NE(value->to_tensor(Copy::kIfNeeded).data_ptr(), value->data());
  const ManagedTensor exported(to_dlpack_versioned(value));
  EXPECT_EQ(exported.flags(), kDlpackReadOnly);
  EXPECT_FALSE(value->clone()->read_only());
}

TEST_F(DlpackTest, TakesACopyOfTheProducerAsItsOwn) {
  Versioned producer;
  producer.managed.flags = kDlpackCopied;
  EXPECT_EQ(producer.take(Copy::kAlways)->data(), producer.data.data());
  Versioned shared;
  EXPECT_NE(shared.take(Copy::kAlways)->data(), shared.data.data());
}

TEST_F(DlpackTest, ExportsEveryTypeWithItsLogicalShape) {
  for (const ElementType& type : element_types()) {
    const auto memory = at::zeros({static_cast<int64_t>(type.bytes(6))}, at::kByte);
    const ValuePtr value = type.packed()
                               ? Value::from_packed(memory, type, {2, 3})
                               : Value::from_tensor(memory.view(type.scalar).view({2, 3}));
    const ManagedTensor exported(to_dlpack_versioned(value));
    const DLTensor& tensor = exported.tensor();
    EXPECT_EQ(tensor.data, value->data()) << type.name;
    EXPECT_EQ(at::IntArrayRef(tensor.shape, 2), at::IntArrayRef({2, 3})) << type.name;
    EXPECT_EQ(at::IntArrayRef(tensor.strides, 2), at::IntArrayRef({3, 1})) << type.name;
    const ValuePtr back = from_dlpack(ManagedTensor(to_dlpack_legacy(value)), Copy::kNever);
    EXPECT_EQ(&back->type(), &type);
    EXPECT_EQ(back->data(), value->data());
  }
}

TEST_F(DlpackTest, TakesPyTorchsPairsOfFloat4) {
  Versioned producer;
  producer.managed.dl_tensor.dtype = {.code = kDLFloat4_e2m1fn, .bits = 4, .lanes = 2};
  const ValuePtr value = producer.take(Copy::kNever);
  EXPECT_EQ(value->sizes(), at::IntArrayRef({3, 8}));
  EXPECT_EQ(value->to_tensor().scalar_type(), at::ScalarType::Float4_e2m1fn_x2);
}

TEST_F(DlpackTest, MakesMemoryLikeAPrototype) {
  const Versioned prototype;
  const ValuePtr value = make_uninitialized(prototype.managed.dl_tensor);
  EXPECT_EQ(value->sizes(), at::IntArrayRef({3, 4}));
  EXPECT_NE(value->data(), prototype.data.data());
}

}  // namespace
}  // namespace ortdl::test
