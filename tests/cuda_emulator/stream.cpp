#include "stream.h"

#include <algorithm>
#include <map>
#include <thread>
#include <utility>

#include "capture.h"
#include "device.h"

namespace emulator {
namespace {

using Streams = std::vector<std::shared_ptr<Stream>>;

struct Registry {
  Handles<cudaStream_t, Stream> created;
  std::map<int, std::shared_ptr<Stream>> legacy;
  std::map<std::pair<std::thread::id, int>, std::shared_ptr<Stream>> per_thread;
  /// Destroyed while work was queued: that work still runs.
  Streams destroyed;
};

Registry& registry() {
  static auto& registry = *new Registry;
  return registry;
}

Streams streams_of(int device) {
  Streams streams;
  const auto add = [&](const auto& pairs) {
    for (const auto& [key, stream] : pairs) {
      if (stream->device() == device) {
        streams.push_back(stream);
      }
    }
  };
  add(registry().created);
  add(registry().legacy);
  add(registry().per_thread);
  for (const auto& stream : registry().destroyed) {
    if (stream->device() == device) {
      streams.push_back(stream);
    }
  }
  return streams;
}

const std::shared_ptr<Stream>& legacy_stream(int device) {
  auto& stream = registry().legacy[device];
  if (stream == nullptr) {
    stream = std::make_shared<Stream>(device, true);
  }
  return stream;
}

void wait_in_order(Stream& stream, const std::shared_ptr<Stream>& earlier) {
  if (earlier->pending() > 0) {
    stream.push([point = end_of(earlier)](Lock& lock) { point.reach(lock); });
  }
}

cudaError_t create(cudaStream_t* handle, unsigned flags) {
  if ((flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) {
    return cudaErrorInvalidValue;
  }
  const bool blocking = (flags & cudaStreamNonBlocking) == 0;
  *handle = registry().created.add(std::make_shared<Stream>(current_device(), blocking));
  return cudaSuccess;
}

template <class Body>
cudaError_t with_stream(const char* name, cudaStream_t handle, Body&& body) {
  return call_on(handle, name, [&](Lock& lock) {
    const auto stream = find_stream(handle);
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(stream, lock);
  });
}

}  // namespace

void Stream::push(Work work) {
  queue_.push_back(std::move(work));
  ++newest_;
}

void Stream::run_until(std::uint64_t number, Lock& lock) {
  while (!done(number)) {
    if (running_) {
      changed_.wait(lock);
      continue;
    }
    running_ = true;
    const Work work = std::move(queue_.front());
    queue_.pop_front();
    work(lock);
    ++done_;
    running_ = false;
    changed_.notify_all();
  }
}

std::shared_ptr<Stream> find_stream(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy) {
    return legacy_stream(current_device());
  }
  if (handle == cudaStreamPerThread) {
    auto& stream = registry().per_thread[{std::this_thread::get_id(), current_device()}];
    if (stream == nullptr) {
      stream = std::make_shared<Stream>(current_device(), true);
    }
    return stream;
  }
  return registry().created.find(handle);
}

bool is_legacy(const std::shared_ptr<Stream>& stream) {
  return stream == legacy_stream(stream->device());
}

cudaError_t submit(const std::shared_ptr<Stream>& stream, Work work) {
  if (stream->capture != nullptr) {
    return stream->capture->add(*stream, std::move(work));
  }
  if (is_legacy(stream)) {
    for (const auto& other : streams_of(stream->device())) {
      if (other == stream || !other->blocking()) {
        continue;
      }
      if (other->capture != nullptr) {
        other->capture->invalidate();
        return cudaErrorStreamCaptureImplicit;
      }
      wait_in_order(*stream, other);
    }
  } else if (stream->blocking()) {
    wait_in_order(*stream, legacy_stream(stream->device()));
  }
  stream->push(std::move(work));
  return cudaSuccess;
}

void run_device(int device, Lock& lock) {
  for (const auto& stream : streams_of(device)) {
    end_of(stream).reach(lock);
  }
  std::erase_if(registry().destroyed, [](const auto& stream) { return stream->pending() == 0; });
}

}  // namespace emulator

using namespace emulator;

extern "C" {

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return call("cudaStreamCreate", [&](Lock&) { return create(stream, cudaStreamDefault); });
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return call("cudaStreamCreateWithFlags", [&](Lock&) { return create(stream, flags); });
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int /*priority*/) {
  return call("cudaStreamCreateWithPriority", [&](Lock&) { return create(stream, flags); });
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  return call("cudaDeviceGetStreamPriorityRange", [&](Lock&) {
    *least = 0;
    *greatest = -5;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream("cudaStreamGetPriority", handle, [&](const auto&, Lock&) {
    *priority = 0;
    return cudaSuccess;
  });
}

cudaError_t cudaStreamDestroy(cudaStream_t handle) {
  return call_on(handle, "cudaStreamDestroy", [&](Lock&) {
    const auto stream = registry().created.remove(handle);
    if (stream == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (stream->capture != nullptr) {
      stream->capture->invalidate();
    }
    if (stream->pending() > 0) {
      registry().destroyed.push_back(stream);
    }
    return cudaSuccess;
  });
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle) {
  return with_stream("cudaStreamSynchronize", handle, [](const auto& stream, Lock& lock) {
    if (const cudaError_t refusal = refuse_stream_wait(*stream); refusal != cudaSuccess) {
      return refusal;
    }
    end_of(stream).reach(lock);
    return cudaSuccess;
  });
}

cudaError_t cudaStreamQuery(cudaStream_t handle) {
  return with_stream("cudaStreamQuery", handle, [](const auto& stream, Lock&) {
    if (const cudaError_t refusal = refuse_stream_wait(*stream); refusal != cudaSuccess) {
      return refusal;
    }
    return end_of(stream).reached() ? cudaSuccess : cudaErrorNotReady;
  });
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t function, void* data) {
  return with_stream("cudaLaunchHostFunc", handle, [&](const auto& stream, Lock&) {
    return submit(stream, [function, data](Lock& lock) {
      lock.unlock();
      function(data);
      lock.lock();
    });
  });
}

cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t callback, void* data,
                                  unsigned /*flags*/) {
  return with_stream("cudaStreamAddCallback", handle, [&](const auto& stream, Lock&) {
    if (stream->capture != nullptr) {
      return refuse_stream_wait(*stream);
    }
    return submit(stream, [handle, callback, data](Lock& lock) {
      lock.unlock();
      callback(handle, cudaSuccess, data);
      lock.lock();
    });
  });
}

}  // extern "C"
