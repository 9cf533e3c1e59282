#include <ATen/ATen.h>
#include <ortdl/dlpack.h>
#include <ortdl/real_ops.h>

#include <algorithm>

namespace ortdl {
namespace {

// PyTorch's limit, and more than any producer has.
constexpr int32_t kMaxDimensions = 64;
// Beyond it offsets in bits overflow; no machine has as much memory.
constexpr int64_t kMaxElements = int64_t{1} << 56;

// How many logical elements one element of `type` holds: PyTorch gives its pairs of float4 so.
int64_t lanes_of(DLDataType type) noexcept {
  return type.code == kDLFloat4_e2m1fn && type.bits == 4 && type.lanes == 2 ? 2 : 1;
}

const ElementType* find_type(DLDataType type) noexcept {
  const auto types = element_types();
  const auto found = std::ranges::find_if(types, [&](const ElementType& candidate) {
    return candidate.dlpack.code == type.code && candidate.dlpack.bits == type.bits;
  });
  return found != types.end() && type.lanes == lanes_of(type) ? &*found : nullptr;
}

void check_type(DLDataType type, uint64_t flags) {
  TORCH_CHECK_TYPE(type.code != kDLComplex,
                   "ONNX Runtime has no complex element type: convert real and imaginary parts, "
                   "as torch.view_as_real(tensor) gives them");
  TORCH_CHECK_TYPE(find_type(type) != nullptr,
                   "no element type of ONNX Runtime is DLPack's type with code ",
                   static_cast<int>(type.code), ", ", static_cast<int>(type.bits), " bits and ",
                   type.lanes, " lanes");
  TORCH_CHECK_BUFFER((flags & kDlpackPadded) == 0 || type.bits >= 8, "the producer pads each ",
                     static_cast<int>(type.bits),
                     "-bit element to a byte, and ONNX Runtime's are packed: convert it to an "
                     "8-bit type first");
}

// The number of elements, or an error for sizes that make no sense.
int64_t checked_count(const DLTensor& tensor) {
  TORCH_CHECK_VALUE(tensor.ndim >= 0 && tensor.ndim <= kMaxDimensions, "a DLPack tensor with ndim ",
                    tensor.ndim, " was given: 0 to ", kMaxDimensions, " are possible");
  TORCH_CHECK_VALUE(tensor.ndim == 0 || tensor.shape != nullptr, "a DLPack tensor with ",
                    tensor.ndim, " dimensions and no shape was given");
  const at::IntArrayRef sizes(tensor.shape, static_cast<size_t>(tensor.ndim));
  return checked_numel(sizes);
}

// Checks that every element's address can be computed.
void check_extent(const DLTensor& tensor, int64_t count) {
  TORCH_CHECK_VALUE(count == 0 || tensor.data != nullptr,
                    "a DLPack tensor with elements but without data was given");
  const auto base = reinterpret_cast<uintptr_t>(tensor.data);
  uintptr_t start = 0;
  TORCH_CHECK_VALUE(!__builtin_add_overflow(base, tensor.byte_offset, &start) &&
                        tensor.byte_offset <= static_cast<uint64_t>(INT64_MAX),
                    "a DLPack tensor with the impossible byte_offset ", tensor.byte_offset,
                    " was given");
  if (count == 0) {
    return;
  }
  int64_t ahead = tensor.strides == nullptr ? count - 1 : 0;
  int64_t behind = 0;
  for (int32_t i = 0; tensor.strides != nullptr && i < tensor.ndim; ++i) {
    const int64_t stride = tensor.strides[i];
    int64_t& reach = stride < 0 ? behind : ahead;
    int64_t step = 0;
    TORCH_CHECK_VALUE(stride != INT64_MIN &&
                          !__builtin_mul_overflow(tensor.shape[i] - 1, std::abs(stride), &step) &&
                          !__builtin_add_overflow(reach, step, &reach) && reach <= kMaxElements,
                      "a DLPack tensor with the impossible stride ", stride, " was given");
  }
  const auto itemsize = static_cast<uintptr_t>(std::max(tensor.dtype.bits / 8, 1));
  uintptr_t last = 0;
  TORCH_CHECK_VALUE(
      !__builtin_add_overflow(start, (static_cast<uintptr_t>(ahead) + 1) * itemsize, &last) &&
          static_cast<uintptr_t>(behind) * itemsize <= start,
      "a DLPack tensor with elements out of the address space was given");
}

bool is_contiguous(const DLTensor& tensor, int64_t count) noexcept {
  if (tensor.strides == nullptr || count == 0) {
    return true;
  }
  int64_t expected = 1;
  for (int32_t i = tensor.ndim; i-- > 0;) {
    if (tensor.shape[i] != 1 && tensor.strides[i] != expected) {
      return false;
    }
    expected *= tensor.shape[i];
  }
  return true;
}

std::byte* start_of(const DLTensor& tensor) noexcept {
  return static_cast<std::byte*>(tensor.data) + tensor.byte_offset;
}

bool is_aligned(const DLTensor& tensor) noexcept {
  const size_t size = std::max<size_t>(tensor.dtype.bits / 8, 1);
  return reinterpret_cast<uintptr_t>(start_of(tensor)) % size == 0;
}

int64_t count_of(const DLTensor& tensor) noexcept {
  int64_t count = 1;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    count *= tensor.shape[i];
  }
  return count;
}

c10::SmallVector<int64_t, 5> logical_sizes(const DLTensor& tensor) {
  c10::SmallVector<int64_t, 5> sizes(tensor.shape, tensor.shape + tensor.ndim);
  if (lanes_of(tensor.dtype) != 1) {
    TORCH_CHECK_VALUE(
        tensor.ndim > 0,
        "a 0-d DLPack tensor holds a pair of float4 elements, which no 0-d value can");
    sizes.back() *= lanes_of(tensor.dtype);
  }
  return sizes;
}

// The elements' bytes, gathered into C order. Strides may be negative, addresses misaligned.
at::Tensor gathered(const DLTensor& tensor, at::Device device) {
  const int64_t itemsize = tensor.dtype.bits / 8;
  std::byte* lowest = start_of(tensor);
  std::vector<int64_t> sizes;
  std::vector<int64_t> strides;
  std::vector<int64_t> reversed;
  for (int32_t i = 0; i < tensor.ndim; ++i) {
    const int64_t size = tensor.shape[i];
    if (size == 1) {
      // Its stride may be anything, and without it at most 56 dimensions are left.
      continue;
    }
    const int64_t stride = tensor.strides[i] * itemsize;
    if (stride < 0) {
      lowest += (size - 1) * stride;
      reversed.push_back(static_cast<int64_t>(sizes.size()));
    }
    sizes.push_back(size);
    strides.push_back(std::abs(stride));
  }
  sizes.push_back(itemsize);
  strides.push_back(1);
  const at::Tensor bytes = at::for_blob(lowest, sizes)
                               .strides(strides)
                               .options(at::TensorOptions(at::kByte).device(device))
                               .target_device(device)
                               .make_tensor();
  return bytes.flip(reversed).contiguous().flatten();
}

at::Tensor copied_bytes(const DLTensor& tensor, const ElementType& type, int64_t count,
                        at::Device device) {
  const RealOps real;
  if (!is_contiguous(tensor, count)) {
    return gathered(tensor, device);
  }
  if (count == 0) {
    return at::empty({0}, at::TensorOptions(at::kByte).device(device));
  }
  return detail::bytes_at(start_of(tensor), type.bytes(count), device).clone();
}

}  // namespace

void validate_dlpack(const DLTensor& tensor, uint64_t flags, Copy copy) {
  constexpr uint64_t known = kDlpackReadOnly | kDlpackCopied | kDlpackPadded;
  TORCH_CHECK_BUFFER((flags & ~known) == 0, "the DLPack struct has the unknown flags ",
                     flags & ~known, ", which may change what its memory means");
  check_type(tensor.dtype, flags);
  static_cast<void>(device_of(tensor.device));
  const int64_t count = checked_count(tensor);
  static_cast<void>(logical_sizes(tensor));
  check_extent(tensor, count);
  const bool contiguous = is_contiguous(tensor, count);
  TORCH_CHECK_VALUE(copy != Copy::kNever || (contiguous && (count == 0 || is_aligned(tensor))),
                    "the DLPack tensor is ", contiguous ? "misaligned" : "not contiguous",
                    ", so sharing it is impossible: pass copy=None to copy where needed");
  TORCH_CHECK_VALUE(contiguous || tensor.dtype.bits >= 8, "a DLPack tensor of ",
                    static_cast<int>(tensor.dtype.bits),
                    "-bit elements is not contiguous, and elements smaller than a byte cannot be "
                    "gathered: make it contiguous first");
}

bool shares_memory(const DLTensor& tensor, uint64_t flags, Copy copy) {
  // A copy that the producer made is nobody else's, but may be of no use for writing.
  const bool copy_wanted =
      copy == Copy::kAlways && (flags & (kDlpackCopied | kDlpackReadOnly)) != kDlpackCopied;
  const int64_t count = count_of(tensor);
  return !copy_wanted && is_contiguous(tensor, count) && (count == 0 || is_aligned(tensor));
}

ValuePtr copy_of_dlpack(const DLTensor& tensor) {
  const ElementType& type = *find_type(tensor.dtype);
  const c10::SmallVector<int64_t, 5> sizes = logical_sizes(tensor);
  const at::Device device = device_of(tensor.device);
  const int64_t count = count_of(tensor) * lanes_of(tensor.dtype);
  if (!device.is_cpu()) {
    require_no_capture(current_stream(device));
  }
  const at::Tensor bytes = copied_bytes(tensor, type, count, device);
  if (!device.is_cpu()) {
    // The producer gets its memory back now, and nobody knows on which stream it reuses that.
    wait_on_host(current_stream(device));
  }
  return Value::of_bytes(bytes, {.type = &type, .data = nullptr, .device = device, .sizes = sizes});
}

ValuePtr from_dlpack(ManagedTensor managed, Copy copy) {
  const DLTensor& tensor = managed.tensor();
  if (!shares_memory(tensor, managed.flags(), copy)) {
    return copy_of_dlpack(tensor);
  }
  const ElementType& type = *find_type(tensor.dtype);
  const c10::SmallVector<int64_t, 5> sizes = logical_sizes(tensor);
  const int64_t count = count_of(tensor) * lanes_of(tensor.dtype);
  const Layout layout{.type = &type,
                      .data = count == 0 ? nullptr : start_of(tensor),
                      .device = device_of(tensor.device),
                      .sizes = sizes,
                      .read_only = (managed.flags() & kDlpackReadOnly) != 0};
  return c10::make_intrusive<Value>(make_owning(std::move(managed), layout, type.bytes(count)),
                                    layout, StreamUse::on(layout.device));
}

ValuePtr make_uninitialized(const DLTensor& prototype) {
  check_type(prototype.dtype, 0);
  const at::Device device = device_of(prototype.device);
  const int64_t count = checked_count(prototype) * lanes_of(prototype.dtype);
  c10::SmallVector<int64_t, 5> sizes = logical_sizes(prototype);
  const ElementType& type = *find_type(prototype.dtype);
  const RealOps real;
  return Value::of_bytes(at::empty({static_cast<int64_t>(type.bytes(count))},
                                   at::TensorOptions(at::kByte).device(device)),
                         {.type = &type, .data = nullptr, .device = device, .sizes = sizes});
}

}  // namespace ortdl
