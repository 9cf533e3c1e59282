#include <dlfcn.h>
#include <ortdl/element_type.h>
#include <ortdl/registered.h>
#include <ortdl/runtime.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <mutex>
#include <string>
#include <string_view>

namespace ortdl {
namespace {

// The table of API 24 up to the one function of it that is called.
struct OrtApi24 : OrtApi {
  std::array<void (*)(), 23> others;
  SetSyncStream run_options_set_sync_stream;
};
static_assert(ORT_API_VERSION == 23, "a newer header declares what OrtApi24 stands for");

std::atomic<const OrtApi24*> newer_table{nullptr};
std::mutex attach_mutex;
const OrtApiBase* attached_base = nullptr;

const char* code_name(OrtErrorCode code) noexcept {
  static constexpr std::array names{"OK",
                                    "FAIL",
                                    "INVALID_ARGUMENT",
                                    "NO_SUCHFILE",
                                    "NO_MODEL",
                                    "ENGINE_ERROR",
                                    "RUNTIME_EXCEPTION",
                                    "INVALID_PROTOBUF",
                                    "MODEL_LOADED",
                                    "NOT_IMPLEMENTED",
                                    "INVALID_GRAPH",
                                    "EP_FAIL",
                                    "MODEL_LOAD_CANCELED",
                                    "MODEL_REQUIRES_COMPILATION",
                                    "NOT_FOUND"};
  const auto index = static_cast<size_t>(code);
  return index < names.size() ? names.at(index) : "UNKNOWN";
}

// "1.32.0" -> 32; the minor number of a release is its API version.
int api_version_of(std::string_view version) noexcept {
  int minor = 0;
  if (version.starts_with("1.")) {
    version.remove_prefix(2);
    std::from_chars(version.data(), version.data() + version.size(), minor);
  }
  return minor;
}

// Before 1.31 the functions that make a tensor take the number of its type for ONNX's, so that one
// of float8e8m0 became one of int2. For those runtimes the table in use is a copy, in which they
// are given the number that they take.
namespace older {

const OrtApi* table = nullptr;
const char* version = "";

OrtStatus* translate(ONNXTensorElementDataType& type) noexcept {
  const ElementType* known = type < kOrtUInt2 ? nullptr : find_element_type(type);
  if (known == nullptr) {
    return nullptr;
  }
  const int first = type == kOrtFloat8E8M0 ? 27 : 24;
  if (api_version_of(version) >= first) {
    type = static_cast<ONNXTensorElementDataType>(known->onnx);
    return nullptr;
  }
  std::array<char, 128> message{};
  static_cast<void>(std::snprintf(message.data(), message.size(),
                                  "ONNX Runtime %s has no %s: 1.%d or newer is needed", version,
                                  known->name, first));
  return table->CreateStatus(ORT_NOT_IMPLEMENTED, message.data());
}

OrtStatus* ORT_API_CALL create(const OrtMemoryInfo* memory, void* data, size_t bytes,
                               const int64_t* shape, size_t rank, ONNXTensorElementDataType type,
                               ::OrtValue** out) noexcept {
  OrtStatus* refused = translate(type);
  return refused != nullptr
             ? refused
             : table->CreateTensorWithDataAsOrtValue(memory, data, bytes, shape, rank, type, out);
}

OrtStatus* ORT_API_CALL create_owning(OrtAllocator* deleter, void* data, size_t bytes,
                                      const int64_t* shape, size_t rank,
                                      ONNXTensorElementDataType type, ::OrtValue** out) noexcept {
  OrtStatus* refused = translate(type);
  return refused != nullptr ? refused
                            : table->CreateTensorWithDataAndDeleterAsOrtValue(
                                  deleter, data, bytes, shape, rank, type, out);
}

// Called once, before any of the above.
const OrtApi* mended(const OrtApi* original, const char* its_version) {
  static OrtApi copy = *original;
  table = original;
  version = its_version;
  copy.CreateTensorWithDataAsOrtValue = create;
  copy.CreateTensorWithDataAndDeleterAsOrtValue = create_owning;
  return &copy;
}

}  // namespace older
}  // namespace

namespace detail {

std::atomic<const OrtApi*> api_table{nullptr};

void throw_no_runtime() {
  TORCH_CHECK(false,
              "no ONNX Runtime is attached yet. In Python, `import ortdl_torch` attaches the one "
              "of the installed onnxruntime package; in C++ call ortdl::load_runtime(path of "
              "libonnxruntime.so) first.");
}

}  // namespace detail

OrtError::OrtError(OrtErrorCode code, const std::string& message)
    : c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)},
                 c10::str("ONNX Runtime: ", code_name(code), " (", static_cast<int>(code),
                          "): ", message)),
      code_(code) {}

void require_registered() {
  TORCH_CHECK(!detail::registration_failed,
              "another copy of ortdl is in this process: PyTorch knows torch.ops.ortdl and "
              "torch.classes.ortdl from it already. Import ortdl_torch from one folder only, and "
              "do not load libortdl.so beside it");
}

void attach_runtime(const OrtApiBase* base) {
  TORCH_CHECK(base != nullptr, "attach_runtime was given no OrtApiBase");
  require_registered();
  const std::lock_guard lock(attach_mutex);
  if (base == attached_base) {
    return;
  }
  const std::string version = base->GetVersionString();
  TORCH_CHECK(attached_base == nullptr, "a second, different ONNX Runtime (", version,
              ") asked to be used, but this process ", "already uses another one (",
              attached_base == nullptr ? "" : attached_base->GetVersionString(),
              "), and values of one cannot be read by the other. Use one onnxruntime package, or "
              "one libonnxruntime.so, per process.");
  const int offered = api_version_of(version);
  TORCH_CHECK(offered >= kOldestRuntime, "ONNX Runtime ", version, " is too old: 1.",
              kOldestRuntime, " or newer is needed. Upgrade the onnxruntime package.");
  // The table only ever grows at its end, so the older of the two versions is safe to read.
  const OrtApi* table = base->GetApi(std::min<uint32_t>(offered, ORT_API_VERSION));
  TORCH_CHECK(table != nullptr, "ONNX Runtime ", version, " does not offer API version ",
              std::min<int>(offered, ORT_API_VERSION), " although its version says so");
  if (offered >= 24) {
    newer_table.store(static_cast<const OrtApi24*>(base->GetApi(24)), std::memory_order_relaxed);
  }
  if (offered < 31) {
    table = older::mended(table, base->GetVersionString());
  }
  attached_base = base;
  detail::api_table.store(table, std::memory_order_release);
}

void load_runtime(const std::string& path) {
  // The handle is never closed: values of the runtime may live until the process ends.
  void* library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  TORCH_CHECK(library != nullptr, "cannot load the ONNX Runtime library '", path, "': ", dlerror());
  auto* entry = reinterpret_cast<const OrtApiBase* (*)()>(dlsym(library, "OrtGetApiBase"));
  TORCH_CHECK(entry != nullptr, "'", path,
              "' exports no OrtGetApiBase: name a libonnxruntime.so, not another library");
  attach_runtime(entry());
}

SetSyncStream set_sync_stream() noexcept {
  const OrtApi24* table = newer_table.load(std::memory_order_relaxed);
  return table == nullptr ? nullptr : table->run_options_set_sync_stream;
}

std::string runtime_version() {
  const std::lock_guard lock(attach_mutex);
  return attached_base == nullptr ? "" : attached_base->GetVersionString();
}

OrtEnv* environment() {
  static OrtEnv* const env = [] {
    OrtEnv* created = nullptr;
    check_status(api().CreateEnv(ORT_LOGGING_LEVEL_WARNING, "ortdl", &created));
    return created;
  }();
  return env;
}

void check_status(OrtStatus* status) {
  if (status == nullptr) [[likely]] {
    return;
  }
  const StatusHandle owned(status);
  throw OrtError(api().GetErrorCode(status), api().GetErrorMessage(status));
}

}  // namespace ortdl
