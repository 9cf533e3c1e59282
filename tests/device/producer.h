#pragma once

#include <ATen/dlpack.h>
#include <ortdl/dlpack.h>

#include <cstdint>
#include <numeric>
#include <vector>

#include "device_test.h"

namespace ortdl::test {

/// A library that lends its memory of device number `index` by DLPack. That it got the memory back
/// stands in the trace as "released".
struct Producer {
  std::vector<float> data;
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  DLManagedTensorVersioned managed{};  // NOLINT(bugprone-invalid-enum-default-initialization)

  explicit Producer(int index, std::vector<int64_t> shape = {4}) : sizes(std::move(shape)) {
    int64_t count = 1;
    strides.resize(sizes.size());
    for (size_t i = sizes.size(); i-- > 0;) {
      strides[i] = count;
      count *= sizes[i];
    }
    data.resize(static_cast<size_t>(count));
    std::iota(data.begin(), data.end(), 0.F);
    managed.version = {.major = DLPACK_MAJOR_VERSION, .minor = DLPACK_MINOR_VERSION};
    managed.deleter = [](DLManagedTensorVersioned*) { fake::trace().note("released"); };
    managed.dl_tensor = {
        .data = data.data(),
        .device = {.device_type = fake::is_amd() ? kDLROCM : kDLCUDA, .device_id = index},
        .ndim = static_cast<int32_t>(sizes.size()),
        .dtype = {.code = kDLFloat, .bits = 32, .lanes = 1},
        .shape = sizes.data(),
        .strides = strides.data(),
        .byte_offset = 0};
  }
  Producer(const Producer&) = delete;
  Producer(Producer&&) = delete;
  Producer& operator=(const Producer&) = delete;
  Producer& operator=(Producer&&) = delete;
  ~Producer() = default;

  [[nodiscard]] ValuePtr lend(Copy copy = Copy::kNever) {
    validate_dlpack(managed.dl_tensor, managed.flags, copy);
    return from_dlpack(ManagedTensor(&managed), copy);
  }
};

}  // namespace ortdl::test
