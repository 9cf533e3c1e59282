#include <ATen/ATen.h>
#include <ATen/EmptyTensor.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <optional>
#include <string>
#include <utility>

#include "accelerator.h"

namespace ortdl::test::fake {
namespace {

c10::DispatchKeySet keys() {
  return c10::DispatchKeySet(device_type() == at::kHIP ? c10::DispatchKey::HIP
                                                       : c10::DispatchKey::CUDA);
}

at::Tensor empty(at::IntArrayRef size, std::optional<at::ScalarType> dtype,
                 std::optional<at::Layout> /*layout*/, std::optional<at::Device> device,
                 std::optional<bool> /*pin_memory*/, std::optional<at::MemoryFormat> format) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_generic(size, &device_allocator(), keys(), dtype.value_or(at::kFloat),
                                   format);
}

at::Tensor empty_strided(at::IntArrayRef size, at::IntArrayRef stride,
                         std::optional<at::ScalarType> dtype, std::optional<at::Layout> /*layout*/,
                         std::optional<at::Device> device, std::optional<bool> /*pin_memory*/) {
  const c10::OptionalDeviceGuard guard(device);
  return at::detail::empty_strided_generic(size, stride, &device_allocator(), keys(),
                                           dtype.value_or(at::kFloat));
}

// Where a tensor's elements are, without a share in them: a device does not keep memory alive for
// the work that is queued on it.
class Elements {
 public:
  explicit Elements(const at::Tensor& tensor)
      : data_(const_cast<void*>(tensor.const_data_ptr())),
        sizes_(tensor.sizes().vec()),
        strides_(tensor.strides().vec()),
        type_(tensor.scalar_type()) {}

  [[nodiscard]] at::Tensor on_host() const {
    return at::from_blob(data_, sizes_, strides_, at::TensorOptions(type_));
  }

 private:
  void* data_;
  std::vector<int64_t> sizes_;
  std::vector<int64_t> strides_;
  at::ScalarType type_;
};

Queue& queue_for(const at::Tensor& tensor) { return current_queue(tensor.device().index()); }

void copy_on(Queue& queue, const at::Tensor& to, const at::Tensor& from) {
  machine().enqueue(
      queue, [to = Elements(to), from = Elements(from)] { to.on_host().copy_(from.on_host()); });
}

void copy_with_host(const at::Tensor& to, const at::Tensor& from, bool non_blocking) {
  Queue& queue = queue_for(to.is_cpu() ? from : to);
  const std::string way =
      to.is_cpu() ? "from " + queue.name + " to the host" : "from the host to " + queue.name;
  trace().call("copy_", way + (non_blocking ? "" : ", which waits"));
  copy_on(queue, to, from);
  if (!non_blocking) {
    machine().synchronize(queue);
  }
}

// As CUDA's: the copy runs on the source's device, between what both devices do before and after.
void copy_between(const at::Tensor& to, const at::Tensor& from) {
  Queue& source = queue_for(from);
  Queue& target = queue_for(to);
  trace().call("copy_", "from " + source.name + " to " + target.name);
  if (&source != &target) {
    machine().wait(source, machine().record(target));
  }
  copy_on(source, to, from);
  if (&source != &target) {
    machine().wait(target, machine().record(source));
  }
}

at::Tensor& copy(at::Tensor& self, const at::Tensor& source, bool non_blocking) {
  if (self.numel() == 0) {
    return self;
  }
  if (self.is_cpu() || source.is_cpu()) {
    copy_with_host(self, source, non_blocking);
  } else {
    copy_between(self, source);
  }
  return self;
}

at::Tensor& fill(at::Tensor& self, const at::Scalar& value) {
  Queue& queue = queue_for(self);
  trace().call("fill_", queue.name);
  machine().enqueue(queue, [to = Elements(self), value] { to.on_host().fill_(value); });
  return self;
}

at::Tensor flip(const at::Tensor& self, at::IntArrayRef dimensions) {
  at::Tensor flipped = at::empty(self.sizes(), self.options());
  Queue& queue = queue_for(self);
  trace().call("flip", queue.name);
  machine().enqueue(queue,
                    [to = Elements(flipped), from = Elements(self), dimensions = dimensions.vec()] {
                      to.on_host().copy_(from.on_host().flip(dimensions));
                    });
  return flipped;
}

}  // namespace

void detail::register_kernels(at::DeviceType type) {
  static torch::Library kernels(torch::Library::IMPL, "aten",
                                type == at::kHIP ? c10::DispatchKey::HIP : c10::DispatchKey::CUDA,
                                __FILE__, __LINE__);
  kernels.impl("empty.memory_format", &empty);
  kernels.impl("empty_strided", &empty_strided);
  kernels.impl("copy_", &copy);
  kernels.impl("fill_.Scalar", &fill);
  kernels.impl("flip", &flip);
  kernels.impl("view", TORCH_FN(at::native::view));
  kernels.impl("as_strided", TORCH_FN(at::native::as_strided_tensorimpl));
  kernels.impl("_reshape_alias", TORCH_FN(at::native::_reshape_alias));
}

}  // namespace ortdl::test::fake
