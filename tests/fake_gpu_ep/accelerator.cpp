#include "accelerator.h"

#include <dlfcn.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace fake_gpu {
namespace {

// cudaStreamNonBlocking, as PyTorch's streams and those of ONNX Runtime's CUDA provider are.
constexpr unsigned kNonBlocking = 1;

template <class Function>
void look_up(const char* name, Function*& function) noexcept {
  function = reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

void succeed(const char* call, int error) {
  if (error != 0) {
    throw std::runtime_error(std::string(call) + " of the emulated CUDA runtime failed with " +
                             std::to_string(error));
  }
}

template <class Function>
void require(const char* call, Function* function) {
  if (function == nullptr) {
    throw std::runtime_error(std::string("a host wait was asked for, but the accelerator that "
                                         "exports cudaLaunchHostFunc does not export ") +
                             call);
  }
}

}  // namespace

/// Makes a device the thread's current one while it lives.
class Accelerator::CurrentDevice {
 public:
  CurrentDevice(const Accelerator& accelerator, int device) : accelerator_(accelerator) {
    if (accelerator_.set_device_ != nullptr && accelerator_.get_device_ != nullptr) {
      succeed("cudaGetDevice", accelerator_.get_device_(&before_));
      succeed("cudaSetDevice", accelerator_.set_device_(device));
    }
  }
  ~CurrentDevice() {
    if (before_ >= 0) {
      accelerator_.set_device_(before_);
    }
  }
  CurrentDevice(const CurrentDevice&) = delete;
  CurrentDevice& operator=(const CurrentDevice&) = delete;

 private:
  const Accelerator& accelerator_;
  int before_ = -1;
};

Accelerator::Accelerator() {
  look_up("cudaLaunchHostFunc", launch_host_func_);
  look_up("cudaStreamSynchronize", stream_synchronize_);
  look_up("cudaStreamCreateWithFlags", stream_create_);
  look_up("cudaStreamDestroy", stream_destroy_);
  look_up("cudaDeviceSynchronize", device_synchronize_);
  look_up("cudaSetDevice", set_device_);
  look_up("cudaGetDevice", get_device_);
  look_up("cudaMalloc", malloc_);
}

const Accelerator* Accelerator::find() {
  static const Accelerator accelerator;
  return accelerator.launch_host_func_ == nullptr ? nullptr : &accelerator;
}

void Accelerator::launch(int device, void* stream, Work work) const {
  const CurrentDevice current(*this, device);
  auto held = std::make_unique<Work>(std::move(work));
  const auto run = [](void* data) {
    const std::unique_ptr<Work> owned(static_cast<Work*>(data));
    (*owned)();
  };
  succeed("cudaLaunchHostFunc", launch_host_func_(stream, run, held.get()));
  static_cast<void>(held.release());
}

void Accelerator::synchronize(int device, void* stream) const {
  require("cudaStreamSynchronize", stream_synchronize_);
  const CurrentDevice current(*this, device);
  succeed("cudaStreamSynchronize", stream_synchronize_(stream));
}

void Accelerator::synchronize_device(int device) const {
  require("cudaDeviceSynchronize", device_synchronize_);
  const CurrentDevice current(*this, device);
  succeed("cudaDeviceSynchronize", device_synchronize_());
}

void* Accelerator::create_stream(int device) const {
  void* stream = nullptr;
  if (stream_create_ != nullptr && stream_destroy_ != nullptr) {
    const CurrentDevice current(*this, device);
    succeed("cudaStreamCreateWithFlags", stream_create_(&stream, kNonBlocking));
  }
  return stream;
}

void Accelerator::destroy_stream(void* stream) const noexcept { stream_destroy_(stream); }

void* Accelerator::allocate(int device, size_t bytes) const {
  void* memory = nullptr;
  if (malloc_ != nullptr) {
    const CurrentDevice current(*this, device);
    succeed("cudaMalloc", malloc_(&memory, bytes));
  }
  return memory;
}

void Accelerator::set_device(int device) const {
  if (set_device_ != nullptr) {
    succeed("cudaSetDevice", set_device_(device));
  }
}

}  // namespace fake_gpu
