#pragma once

#include <c10/util/Exception.h>
#include <onnxruntime_c_api.h>

#include <atomic>
#include <memory>
#include <string>

/// \file
/// The ONNX Runtime in use: its API table, where it came from, owning handles of its objects and
/// its status as an exception.
namespace ortdl {

/// The first ONNX Runtime release that has every function this library calls.
inline constexpr int kOldestRuntime = 23;

/// What ONNX Runtime reported: a RuntimeError that keeps the code of its status.
///
/// Python sees `ortdl_torch.OrtError`, a RuntimeError with the attribute `code`.
class OrtError final : public c10::Error {
 public:
  OrtError(OrtErrorCode code, const std::string& message);
  [[nodiscard]] OrtErrorCode code() const noexcept { return code_; }

 private:
  OrtErrorCode code_;
};

/// Make the runtime behind `base` the one this library uses, for the rest of the process.
///
/// The first caller decides; the same runtime again does nothing. Safe from several threads.
/// \param base ONNX Runtime's entry, as `OrtGetApiBase()` or `RegisterCustomOps` hands it out.
/// \throws c10::Error if another runtime is in use already, `base` is older than
///   1.`kOldestRuntime`, or another copy of this library is in the process.
void attach_runtime(const OrtApiBase* base);

/// Load a `libonnxruntime.so` and attach it: for programs without Python.
///
/// \param path The shared library; it stays loaded for the rest of the process.
/// \throws c10::Error if it cannot be loaded, is no ONNX Runtime, or `attach_runtime` refuses it.
void load_runtime(const std::string& path);

/// The version of the runtime in use, such as "1.32.0"; empty before one is attached.
[[nodiscard]] std::string runtime_version();

namespace detail {
extern std::atomic<const OrtApi*> api_table;
[[noreturn]] void throw_no_runtime();
}  // namespace detail

/// The API table of the runtime in use.
/// \throws c10::Error if none is attached.
inline const OrtApi& api() {
  const OrtApi* table = detail::api_table.load(std::memory_order_acquire);
  if (table == nullptr) [[unlikely]] {
    detail::throw_no_runtime();
  }
  return *table;
}

/// `OrtApi::RunOptionsSetSyncStream` of API 24, which the header in use may not declare; null if
/// the runtime is older.
using SetSyncStream = void(ORT_API_CALL*)(OrtRunOptions*, OrtSyncStream*);
[[nodiscard]] SetSyncStream set_sync_stream() noexcept;

/// The process' ONNX Runtime environment, which is never released: values and sessions may
/// outlive every other owner of it.
OrtEnv* environment();

/// Turn a status into an exception; takes ownership of `status`.
/// \throws OrtError unless `status` is null.
void check_status(OrtStatus* status);

/// Releases an object of ONNX Runtime through the function of its API table.
template <auto Release>
struct Releaser {
  template <typename T>
  void operator()(T* object) const noexcept {
    (api().*Release)(object);
  }
};

using StatusHandle = std::unique_ptr<OrtStatus, Releaser<&OrtApi::ReleaseStatus>>;
using ValueHandle = std::unique_ptr<::OrtValue, Releaser<&OrtApi::ReleaseValue>>;
using SessionHandle = std::unique_ptr<::OrtSession, Releaser<&OrtApi::ReleaseSession>>;
using SessionOptionsHandle =
    std::unique_ptr<::OrtSessionOptions, Releaser<&OrtApi::ReleaseSessionOptions>>;
using TypeInfoHandle = std::unique_ptr<::OrtTypeInfo, Releaser<&OrtApi::ReleaseTypeInfo>>;
using ShapeInfoHandle =
    std::unique_ptr<::OrtTensorTypeAndShapeInfo, Releaser<&OrtApi::ReleaseTensorTypeAndShapeInfo>>;
using KeyValuesHandle =
    std::unique_ptr<::OrtKeyValuePairs, Releaser<&OrtApi::ReleaseKeyValuePairs>>;

}  // namespace ortdl
