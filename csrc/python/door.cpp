#include <python/door.h>

#include <utility>

// The Python package onnxruntime exports no C API, but its SessionOptions loads a library and
// calls the function below with its API table and the options themselves. That is how this module
// uses the very runtime that Python uses, and gets every option that a caller set in Python.

namespace ortdl::python {
namespace {

SessionOptionsHandle& captured_options() {
  thread_local SessionOptionsHandle options;
  return options;
}

OrtStatus* failed(const OrtApiBase* base, const char* message) noexcept {
  // Every runtime has the first version of the table, and CreateStatus is in it.
  return base->GetApi(1)->CreateStatus(ORT_FAIL, message);
}

}  // namespace

SessionOptionsHandle take_captured_options() {
  SessionOptionsHandle options = std::exchange(captured_options(), nullptr);
  TORCH_CHECK(options != nullptr,
              "no session options were captured: this onnxruntime did not call RegisterCustomOps");
  return options;
}

}  // namespace ortdl::python

extern "C" __attribute__((visibility("default"))) OrtStatus* RegisterCustomOps(
    OrtSessionOptions* options, const OrtApiBase* base) noexcept {
  using namespace ortdl;
  try {
    attach_runtime(base);
    OrtSessionOptions* clone = nullptr;
    check_status(api().CloneSessionOptions(options, &clone));
    python::captured_options().reset(clone);
    return nullptr;
  } catch (const c10::Error& error) {
    return python::failed(base, error.what_without_backtrace());
  } catch (const std::exception& error) {
    return python::failed(base, error.what());
  }
}
