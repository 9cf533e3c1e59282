
#include "dlpack_producer.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <type_traits>

namespace ortdl::fuzz {

Plan Plan::read(Reader& reader) {
  // All zero, which is no device's type: all is read below.
  Plan plan{};  // NOLINT(bugprone-invalid-enum-default-initialization)
  const uint8_t bits = reader.byte();
  plan.versioned = (bits & 1) != 0;
  plan.round_trip = (bits & 2) != 0;
  plan.null_deleter = (bits & 4) != 0;
  plan.null_shape = (bits & 8) != 0;
  plan.null_strides = (bits & 16) != 0;
  plan.prototype = (bits & 224) == 224;
  const uint8_t choices = reader.byte();
  plan.copy = std::array{Copy::kNever, Copy::kIfNeeded, Copy::kAlways}.at(choices % 3);
  plan.data = std::array{Data::kBuffer, Data::kNull, Data::kWild}.at(choices / 3 % 3);
  plan.allocations = choices < 128 ? 1000 : choices % 4;
  plan.buffer_size = static_cast<uint64_t>(reader.number()) % 4096;
  plan.data_value = static_cast<uint64_t>(reader.number());
  plan.version = {.major = static_cast<uint32_t>(reader.number()),
                  .minor = static_cast<uint32_t>(reader.number())};
  plan.raw_flags = static_cast<uint64_t>(reader.number());
  plan.raw.device = {.device_type = static_cast<DLDeviceType>(reader.number()),
                     .device_id = static_cast<int32_t>(reader.number())};
  plan.raw.dtype.code = reader.byte();
  plan.raw.dtype.bits = reader.byte();
  plan.raw.dtype.lanes = static_cast<uint16_t>(reader.number());
  plan.raw.byte_offset = static_cast<uint64_t>(reader.number());
  plan.raw.ndim = static_cast<int32_t>(reader.number());
  // A reader that goes on beyond a possible rank meets the end of an empty array.
  const int32_t entries = plan.raw.ndim >= 0 && plan.raw.ndim <= 64 ? plan.raw.ndim : 0;
  for (int32_t i = 0; i < entries; ++i) {
    plan.shape.push_back(reader.number());
    plan.strides.push_back(reader.number());
  }
  return plan;
}

template <typename Managed>
Managed* Producer::managed() const noexcept {
  return reinterpret_cast<Managed*>(managed_.get());
}

template <typename Managed>
void Producer::fill(size_t size) {
  Managed made{};  // NOLINT(bugprone-invalid-enum-default-initialization): set below
  if constexpr (std::is_same_v<Managed, DLManagedTensorVersioned>) {
    made.version = plan_.version;
    made.flags = plan_.raw_flags;
  }
  made.dl_tensor = plan_.raw;
  made.dl_tensor.shape = shape_.get();
  made.dl_tensor.strides = strides_.get();
  switch (plan_.data) {
    case Plan::Data::kBuffer:
      made.dl_tensor.data = buffer_.get() + plan_.data_value % (plan_.buffer_size + 1);
      break;
    case Plan::Data::kNull:
      break;
    case Plan::Data::kWild:
      made.dl_tensor.data = reinterpret_cast<void*>(plan_.data_value);
      break;
  }
  made.manager_ctx = this;
  if (!plan_.null_deleter) {
    made.deleter = [](Managed* self) {
      auto* producer = static_cast<Producer*>(self->manager_ctx);
      require(self == producer->managed<Managed>(), "the deleter is given its own struct");
      producer->release();
    };
  }
  managed_ = std::make_unique<std::byte[]>(size);
  std::memcpy(managed_.get(), &made, size);
  before_.assign(managed_.get(), managed_.get() + size);
}

Producer::Producer(const Plan& plan) : plan_(plan) {
  buffer_ = std::make_unique<std::byte[]>(plan.buffer_size);
  for (size_t i = 0; i < plan.buffer_size; ++i) {
    buffer_[i] = static_cast<std::byte>(i * 37 + (i >> 8) + 11);
  }
  const auto array_of = [](const std::vector<int64_t>& numbers) {
    auto array = std::make_unique<int64_t[]>(numbers.size());
    std::ranges::copy(numbers, array.get());
    return array;
  };
  shape_ = plan.null_shape ? nullptr : array_of(plan.shape);
  strides_ = plan.null_strides ? nullptr : array_of(plan.strides);
  if (!plan.versioned) {
    fill<DLManagedTensor>(sizeof(DLManagedTensor));
  } else if (plan.version.major > DLPACK_MAJOR_VERSION) {
    // Nothing is known of what follows the deleter there, so nothing is there.
    fill<DLManagedTensorVersioned>(offsetof(DLManagedTensorVersioned, flags));
  } else {
    fill<DLManagedTensorVersioned>(sizeof(DLManagedTensorVersioned));
  }
}

const DLTensor& Producer::tensor() const noexcept {
  return plan_.versioned ? managed<DLManagedTensorVersioned>()->dl_tensor
                         : managed<DLManagedTensor>()->dl_tensor;
}

bool Producer::is_unchanged() const {
  return std::equal(before_.begin(), before_.end(), managed_.get()) &&
         (plan_.null_shape ||
          std::ranges::equal(plan_.shape, std::span(shape_.get(), plan_.shape.size()))) &&
         (plan_.null_strides ||
          std::ranges::equal(plan_.strides, std::span(strides_.get(), plan_.strides.size())));
}

bool Producer::owns(Wide address, Wide size) const noexcept {
  const Wide start = reinterpret_cast<uintptr_t>(buffer_.get());
  return address >= start && address + size <= start + static_cast<Wide>(plan_.buffer_size);
}

ManagedTensor Producer::hand_over() noexcept {
  return plan_.versioned ? ManagedTensor(managed<DLManagedTensorVersioned>())
                         : ManagedTensor(managed<DLManagedTensor>());
}

void Producer::release() noexcept {
  require(released_++ == 0, "the deleter is called only once");
  managed_.reset();
  buffer_.reset();
  shape_.reset();
  strides_.reset();
}

}  // namespace ortdl::fuzz
