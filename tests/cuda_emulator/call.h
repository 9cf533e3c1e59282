#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <utility>

/// \file
/// What every emulated call does first and last: lock, trace, fail if a test wants that, and
/// remember the error.
namespace emulator {

/// Held by each call. Work that calls back into the program lets go of it meanwhile.
using Lock = std::unique_lock<std::mutex>;

[[nodiscard]] Lock lock_machine();

/// Adds a call to the trace.
/// \returns the error with which a test wants this call to fail, else cudaSuccess.
[[nodiscard]] cudaError_t enter(const char* name, cudaStream_t stream);

/// Keeps an error for cudaGetLastError on this thread, and returns it.
cudaError_t remember(cudaError_t error) noexcept;
[[nodiscard]] cudaError_t last_error() noexcept;
void forget_error() noexcept;

/// One call of the API. `body` takes the lock and returns the call's error.
template <class Body>
cudaError_t call_on(cudaStream_t stream, const char* name, Body&& body) {
  Lock lock = lock_machine();
  const cudaError_t wanted = enter(name, stream);
  return remember(wanted == cudaSuccess ? std::forward<Body>(body)(lock) : wanted);
}

template <class Body>
cudaError_t call(const char* name, Body&& body) {
  return call_on(nullptr, name, std::forward<Body>(body));
}

/// Lets the `nth` next call of `name` fail with `error`; with `nth` 0 none does.
void fail(const std::string& name, unsigned nth, cudaError_t error);

/// Forgets the trace and every failure that was asked for.
void reset_calls();

/// One line for each call since the last reset: its name and its stream's handle.
[[nodiscard]] std::string trace();

/// The objects behind the API's handles. A handle that is no more is found out, not followed.
template <class Handle, class Object>
class Handles {
 public:
  Handle add(std::shared_ptr<Object> object) {
    auto* handle = reinterpret_cast<Handle>(object.get());
    objects_.emplace(handle, std::move(object));
    return handle;
  }

  [[nodiscard]] std::shared_ptr<Object> find(Handle handle) const {
    const auto found = objects_.find(handle);
    return found == objects_.end() ? nullptr : found->second;
  }

  std::shared_ptr<Object> remove(Handle handle) {
    auto object = find(handle);
    objects_.erase(handle);
    return object;
  }

  [[nodiscard]] auto begin() const { return objects_.begin(); }
  [[nodiscard]] auto end() const { return objects_.end(); }

 private:
  std::unordered_map<Handle, std::shared_ptr<Object>> objects_;
};

}  // namespace emulator
