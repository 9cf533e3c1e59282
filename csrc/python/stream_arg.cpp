#include <python/args.h>
#include <python/stream_arg.h>

#include <bit>

namespace ortdl::python {
namespace {

// CUDA's and HIP's own names of two streams, where others have an address.
constexpr int64_t kLegacyDefault = 1;
constexpr int64_t kPerThreadDefault = 2;

bool is_rocm(at::Device device) { return dlpack_device(device).device_type == kDLROCM; }

// Addresses are even; PyTorch would take an odd number for one of its own streams.
bool can_be_handle(int64_t number) { return number % 2 == 0; }

int64_t number_arg(PyObject* stream) {
  TORCH_CHECK_TYPE(PyLong_Check(stream) && !PyBool_Check(stream),
                   "stream must be an integer or None, not ", Py_TYPE(stream)->tp_name);
  return int_arg(stream, "stream");
}

}  // namespace

std::optional<c10::Stream> stream_arg(PyObject* stream, at::Device device) {
  if (stream == nullptr || Py_IsNone(stream) != 0) {
    return device.is_cpu() ? std::nullopt : std::optional(stream_of_handle(device, 0));
  }
  const int64_t number = number_arg(stream);
  if (number == -1) {
    return std::nullopt;
  }
  TORCH_CHECK_VALUE(!device.is_cpu(),
                    "a value on the CPU has no streams: stream must be None or -1, not ", number);
  const bool rocm = is_rocm(device);
  TORCH_CHECK_VALUE(rocm || number != 0,
                    "stream=0 could be either default stream of CUDA: pass 1 for the legacy one");
  TORCH_CHECK_BUFFER(rocm || number != kPerThreadDefault,
                     "stream=2 is CUDA's per-thread default stream, which PyTorch does not have: "
                     "pass 1 for the legacy default stream, or a stream's handle");
  const bool is_default = number == (rocm ? 0 : kLegacyDefault);
  TORCH_CHECK_VALUE(is_default || (number > kPerThreadDefault && can_be_handle(number)),
                    "stream=", number, " names no stream of ", device,
                    ": pass None for the default stream, a stream's handle, or -1 for no "
                    "synchronisation");
  return stream_of_handle(device, is_default ? 0 : std::bit_cast<uintptr_t>(number));
}

int64_t stream_number(c10::Stream stream) {
  if (stream.is_capturing()) {
    return -1;
  }
  const auto handle = std::bit_cast<int64_t>(handle_of(stream));
  return handle == 0 && !is_rocm(stream.device()) ? kLegacyDefault : handle;
}

c10::Stream stream_of_producer(at::Device device, void* handle) {
  const auto number = std::bit_cast<int64_t>(handle);
  if (number == kLegacyDefault) {
    return stream_of_handle(device, 0);
  }
  TORCH_CHECK_BUFFER(can_be_handle(number), "the producer's current_work_stream gave ", number,
                     ", which no stream of ", device, " can have as its handle");
  return stream_of_handle(device, reinterpret_cast<uintptr_t>(handle));
}

}  // namespace ortdl::python
