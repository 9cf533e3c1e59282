// The input decides the element type, the shape and every property of the tensor of bytes. What
// must come of it is worked out in arithmetic that cannot overflow.

#include <ATen/ATen.h>
#include <ATen/native/Resize.h>
#include <c10/core/InferenceMode.h>
#include <ortdl/ortdl.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <utility>
#include <vector>

#include "target.h"

namespace ortdl::fuzz {
namespace {

// What is unusual about the tensor.
enum class Oddity : uint8_t {
  kNone,
  kUndefined,
  kMeta,
  kSparse,
  kNegative,
  kZeroTensor,
  kOtherType,
  kMatrix,
  kShrunk,
  kInference,
};
constexpr uint8_t kOddities = 10;

struct Plan {
  const ElementType* type;
  Oddity oddity;
  int64_t size;
  int64_t stride;
  int64_t offset;
  std::vector<int64_t> shape;

  static Plan read(Reader& reader);
};

Plan Plan::read(Reader& reader) {
  Plan plan{};
  const std::span<const ElementType> types = element_types();
  const uint8_t choice = reader.byte();
  // Three in four are of a packed type.
  plan.type = &types[choice % types.size()];
  if (choice % 4 != 0 && !plan.type->packed()) {
    std::vector<const ElementType*> packed;
    for (const ElementType& type : types) {
      if (type.packed()) {
        packed.push_back(&type);
      }
    }
    plan.type = packed[choice % packed.size()];
  }
  const uint8_t oddity = reader.byte();
  plan.oddity = oddity < 128 ? Oddity::kNone : static_cast<Oddity>(oddity % kOddities);
  plan.size = static_cast<int64_t>(static_cast<uint64_t>(reader.number()) % 600);
  plan.stride = static_cast<int64_t>(reader.byte() % 4);
  plan.offset = static_cast<int64_t>(reader.byte() % 32);
  const uint8_t rank = reader.byte();
  for (int i = 0; i < (rank < 240 ? rank % 6 : rank - 180); ++i) {
    plan.shape.push_back(reader.number());
  }
  return plan;
}

// The bytes count up, so that each place tells which it is.
at::Tensor counting(int64_t size) {
  at::Tensor bytes = at::empty({size}, at::kByte);
  std::iota(bytes.mutable_data_ptr<uint8_t>(), bytes.mutable_data_ptr<uint8_t>() + size, 11);
  return bytes;
}

at::Tensor tensor_of(const Plan& plan) {
  const int64_t needed = plan.size == 0 ? 0 : (plan.size - 1) * plan.stride + 1;
  switch (plan.oddity) {
    case Oddity::kUndefined:
      return {};
    case Oddity::kMeta:
      return at::empty({plan.size}, at::TensorOptions(at::kByte).device(at::kMeta));
    case Oddity::kSparse:
      return counting(plan.size).to_sparse();
    case Oddity::kNegative:
      return at::_neg_view(counting(plan.size));
    case Oddity::kZeroTensor:
      return at::_efficientzerotensor({plan.size}, at::kByte);
    case Oddity::kOtherType:
      return at::zeros({plan.size}, plan.stride < 2 ? at::kChar : at::kFloat);
    case Oddity::kMatrix:
      return counting(plan.size * 2).view({2, plan.size});
    case Oddity::kShrunk: {
      at::Tensor bytes =
          counting(plan.offset + needed).as_strided({plan.size}, {plan.stride}, plan.offset);
      at::native::resize_bytes_cpu(bytes.storage().unsafeGetStorageImpl(),
                                   static_cast<size_t>(needed / 2));
      return bytes;
    }
    case Oddity::kInference: {
      const c10::InferenceMode mode;
      return counting(plan.size);
    }
    case Oddity::kNone:
      break;
  }
  return counting(plan.offset + needed).as_strided({plan.size}, {plan.stride}, plan.offset);
}

struct Expected {
  Wide count = 1;  // elements, or fewer than none
  bool possible = true;
  bool plain = true;
};

Expected expect(const Plan& plan, const at::Tensor& bytes) {
  Expected expected;
  Wide padded = 1;
  for (const int64_t size : plan.shape) {
    expected.possible &= size >= 0;
    padded = std::min(padded * std::max<int64_t>(size, 1), Wide{1} << 64);
    expected.count = size == 0 ? 0 : expected.count;
  }
  expected.count = expected.count == 0 ? 0 : padded;
  const Wide needed = (expected.count * plan.type->dlpack.bits + 7) / 8;
  const bool usual =
      plan.oddity == Oddity::kInference ||
      ((plan.oddity == Oddity::kNone || plan.size == 0) && (plan.size < 2 || plan.stride == 1));
  const bool strided = plan.oddity == Oddity::kNone || plan.oddity == Oddity::kShrunk;
  expected.possible &= plan.type->packed() && needed == plan.size &&
                       (strided || plan.oddity == Oddity::kInference) && usual;
  // Sizes beside a zero may be beyond what the library counts with.
  expected.plain = expected.possible && padded <= Wide{1} << 40;
  require(!expected.possible || bytes.numel() == plan.size, "the plan is what the tensor is");
  return expected;
}

void check_value(const Value& value, const Plan& plan, const void* data,
                 const std::vector<uint8_t>& expected) {
  require(value.is_tensor() && &value.type() == plan.type, "the element type is kept");
  require(value.sizes() == at::IntArrayRef(plan.shape), "the shape is kept");
  require(value.nbytes() == expected.size(), "the size in bytes is right");
  require(value.device() == at::kCPU && !value.read_only(), "the value is on the CPU");
  require(expected.empty() || value.data() == data, "memory is shared");
  require(expected.empty() || std::memcmp(value.data(), expected.data(), expected.size()) == 0,
          "the elements are the bytes that were given");
  const at::Tensor packed = value.packed();
  require(
      packed.dim() == 1 && packed.scalar_type() == at::kByte && packed.nbytes() == expected.size(),
      "packed() gives the bytes");
  require(expected.empty() || packed.const_data_ptr() == value.data(), "packed() shares them");
}

// ONNX Runtime and this library must mean the same by the handle.
void check_handle(ValuePtr value, const Plan& plan, const void* data,
                  const std::vector<uint8_t>& expected) {
  OrtTensorTypeAndShapeInfo* raw = nullptr;
  check_status(api().GetTensorTypeAndShape(value->handle(), &raw));
  const ShapeInfoHandle info(raw);
  ONNXTensorElementDataType type = ONNX_TENSOR_ELEMENT_DATA_TYPE_UNDEFINED;
  check_status(api().GetTensorElementType(raw, &type));
  require(type == plan.type->ort, "ONNX Runtime has the same element type");
  size_t rank = 0;
  check_status(api().GetDimensionsCount(raw, &rank));
  std::vector<int64_t> sizes(rank);
  check_status(api().GetDimensions(raw, sizes.data(), rank));
  require(sizes == plan.shape, "ONNX Runtime has the same shape");
  size_t size = 0;
  check_status(api().GetTensorSizeInBytes(value->handle(), &size));
  require(size == expected.size(), "ONNX Runtime has as many bytes");
  const ValuePtr copy = value->clone();
  value.reset();
  require(copy->data() != data || expected.empty(), "a clone has memory of its own");
  check_value(*copy, plan, copy->data(), expected);
}

void check_dense(const Value& value, const std::vector<uint8_t>& expected) {
  const bool pairs =
      value.type().per_scalar() == 2 && !value.sizes().empty() && value.sizes().back() % 2 == 0;
  at::Tensor dense;
  require(accepts([&] { dense = value.to_tensor(); }) == pairs,
          "only pairs of elements are a tensor");
  if (pairs) {
    std::vector<int64_t> halved = value.sizes().vec();
    halved.back() /= 2;
    require(dense.sizes() == at::IntArrayRef(halved) && dense.nbytes() == expected.size(),
            "a tensor has half the last size");
    const ValuePtr again = Value::from_tensor(dense);
    require(again->sizes() == value.sizes() && &again->type() == &value.type(),
            "a tensor becomes the value that it was made of");
  }
}

void check_dlpack(const ValuePtr& value, const Plan& plan, const void* data,
                  const std::vector<uint8_t>& expected) {
  if (value->sizes().size() > 64) {
    return;  // DLPack has no more
  }
  ManagedTensor managed(to_dlpack_versioned(value));
  require(accepts([&] { validate_dlpack(managed.tensor(), managed.flags(), Copy::kNever); }),
          "an export can be imported");
  check_value(*from_dlpack(std::move(managed), Copy::kNever), plan, data, expected);
}

void view_packed(Input input) {
  Reader reader(input);
  const Plan plan = Plan::read(reader);
  {
    at::Tensor bytes = tensor_of(plan);
    const Expected expected = expect(plan, bytes);
    ValuePtr value;
    const bool accepted =
        accepts([&] { value = Value::from_packed(bytes, *plan.type, plan.shape); });
    require(!accepted || expected.possible, "what makes no sense is refused");
    require(accepted || !expected.plain, "what makes sense is accepted");
    if (accepted) {
      const auto* data = static_cast<const uint8_t*>(bytes.const_data_ptr());
      const std::vector<uint8_t> elements(data, data + bytes.nbytes());
      bytes.reset();  // the value keeps the memory
      check_value(*value, plan, data, elements);
      check_dense(*value, elements);
      check_dlpack(value, plan, data, elements);
      check_handle(std::move(value), plan, data, elements);
    }
  }
  check_nothing_lives();
}

}  // namespace

const Target kFromPacked{
    .name = "from_packed", .begin = [] {}, .run = view_packed, .is_message = false};

}  // namespace ortdl::fuzz
