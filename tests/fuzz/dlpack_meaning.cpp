#include <algorithm>
#include <cstring>
#include <ranges>

#include "dlpack_producer.h"

namespace ortdl::fuzz {
namespace {

Wide clamped(Wide number, Wide limit = kHuge) { return std::clamp(number, -limit, limit); }

bool is_pair(DLDataType type) { return type.code == kDLFloat4_e2m1fn && type.lanes == 2; }

const ElementType* type_of(DLDataType type) {
  for (const ElementType& candidate : element_types()) {
    if (candidate.dlpack.code == type.code && candidate.dlpack.bits == type.bits) {
      return type.lanes == 1 || is_pair(type) ? &candidate : nullptr;
    }
  }
  return nullptr;
}

bool is_dense(const DLTensor& tensor) {
  if (tensor.strides == nullptr) {
    return true;
  }
  Wide expected = 1;
  for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
      return false;
    }
    expected = clamped(expected * tensor.shape[i], Wide{1} << 63);
  }
  return true;
}

// The place of the first and the last byte of any element, from the element with all indices zero.
struct Extent {
  Wide low = 0;
  Wide high = 0;
};

Extent extent_of(const DLTensor& tensor, const Described& described) {
  if (is_dense(tensor)) {
    return {.low = 0, .high = described.bytes};
  }
  const Wide itemsize = tensor.dtype.bits / 8;
  Extent extent;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    const Wide step = clamped(Wide{tensor.shape[i] - 1} * tensor.strides[i]);
    (step < 0 ? extent.low : extent.high) += step;
  }
  return {.low = extent.low * itemsize, .high = (extent.high + 1) * itemsize};
}

// Sets what the shape says; false if it makes no sense.
bool describe_shape(const DLTensor& tensor, Described& described) {
  if (tensor.ndim < 0 || tensor.ndim > 64 || (tensor.ndim > 0 && tensor.shape == nullptr)) {
    return false;
  }
  described.padded_count = is_pair(tensor.dtype) ? 2 : 1;
  bool empty = false;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    const int64_t size = tensor.shape[i];
    if (size < 0) {
      return false;
    }
    empty = empty || size == 0;
    described.padded_count =
        clamped(described.padded_count * std::max<int64_t>(size, 1), Wide{1} << 64);
    described.sizes.push_back(size);
  }
  described.count = empty ? 0 : described.padded_count;
  described.bytes = (described.count * tensor.dtype.bits + 7) / 8;
  if (is_pair(tensor.dtype)) {
    if (tensor.ndim == 0) {
      return false;
    }
    described.sizes.back() =
        static_cast<int64_t>(static_cast<uint64_t>(described.sizes.back()) * 2);
  }
  return described.padded_count * tensor.dtype.bits < (Wide{1} << 63);
}

// Sets where the elements are; false if they can be nowhere.
bool describe_memory(const Producer& producer, Described& described) {
  const DLTensor& tensor = producer.tensor();
  const Wide start = Wide{reinterpret_cast<uintptr_t>(tensor.data)} + tensor.byte_offset;
  if (start >= Wide{1} << 64 || (described.count > 0 && tensor.data == nullptr)) {
    return false;
  }
  if (described.count == 0) {
    described.readable = described.shareable = true;
    return true;
  }
  const Extent extent = extent_of(tensor, described);
  described.readable = producer.owns(start + extent.low, extent.high - extent.low);
  const Wide alignment = std::max(tensor.dtype.bits / 8, 1);
  described.shareable = is_dense(tensor) && start % alignment == 0;
  return extent.high - extent.low < (Wide{1} << 63) && start + extent.low >= 0 &&
         start + extent.high < Wide{1} << 64 && (is_dense(tensor) || tensor.dtype.bits >= 8);
}

}  // namespace

Described describe(const Producer& producer, const Plan& plan) {
  const DLTensor& tensor = producer.tensor();
  const DLDeviceType device = tensor.device.device_type;
  const bool on_host = tensor.device.device_id == 0 &&
                       (device == kDLCPU || device == kDLCUDAHost || device == kDLROCMHost);
  const bool padded = (plan.flags() & kDlpackPadded) != 0 && tensor.dtype.bits < 8;
  Described described{.type = type_of(tensor.dtype)};
  const bool somewhere = describe_shape(tensor, described) && describe_memory(producer, described);
  described.possible = described.type != nullptr && on_host && plan.flags() < 8 && !padded &&
                       somewhere && (plan.copy != Copy::kNever || described.shareable);
  // It has no absolute value, harmless as it is along a size of one.
  const bool odd_stride =
      !plan.null_strides && std::ranges::find(plan.strides, INT64_MIN) != plan.strides.end();
  described.plain = described.possible && described.readable && !odd_stride &&
                    described.padded_count <= kSmall &&
                    tensor.byte_offset <= static_cast<uint64_t>(INT64_MAX);
  return described;
}

std::byte* address_of_first(const DLTensor& tensor) noexcept {
  return reinterpret_cast<std::byte*>(reinterpret_cast<uintptr_t>(tensor.data) +
                                      tensor.byte_offset);
}

std::vector<std::byte> gather(const DLTensor& tensor, const Described& described) {
  std::vector<std::byte> elements(static_cast<size_t>(described.bytes));
  std::byte* first = address_of_first(tensor);
  if (is_dense(tensor) || described.count == 0) {
    std::copy_n(first, elements.size(), elements.begin());
    return elements;
  }
  const int64_t itemsize = tensor.dtype.bits / 8;
  for (size_t at = 0; at < elements.size(); at += static_cast<size_t>(itemsize)) {
    int64_t rest = static_cast<int64_t>(at) / itemsize;
    Wide place = 0;
    for (int32_t i = tensor.ndim - 1; i >= 0; --i) {
      place += Wide{rest % tensor.shape[i]} * tensor.strides[i];
      rest /= tensor.shape[i];
    }
    std::copy_n(first + static_cast<int64_t>(place) * itemsize, itemsize,
                elements.begin() + static_cast<int64_t>(at));
  }
  return elements;
}

}  // namespace ortdl::fuzz
