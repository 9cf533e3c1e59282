#include <ATen/ops/empty.h>
#include <ortdl/session_config.h>

#include <charconv>
#include <filesystem>
#include <fstream>

namespace ortdl {
namespace {

int to_int(const std::string& name, const std::string& text) {
  int number = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  TORCH_CHECK_VALUE(error == std::errc() && stop == end, "the session option '", name,
                    "' must be an integer, not '", text, "'");
  return number;
}

OrtStatus* set_property(OrtSessionOptions* options, const std::string& name,
                        const std::string& text) {
  const OrtApi& ort = api();
  if (name == "logid") {
    return ort.SetSessionLogId(options, text.c_str());
  }
  const int number = to_int(name, text);
  if (name == "intra_op_num_threads") {
    return ort.SetIntraOpNumThreads(options, number);
  }
  if (name == "inter_op_num_threads") {
    return ort.SetInterOpNumThreads(options, number);
  }
  if (name == "execution_mode") {
    return ort.SetSessionExecutionMode(options, static_cast<ExecutionMode>(number));
  }
  if (name == "graph_optimization_level") {
    return ort.SetSessionGraphOptimizationLevel(options,
                                                static_cast<GraphOptimizationLevel>(number));
  }
  if (name == "log_severity_level") {
    return ort.SetSessionLogSeverityLevel(options, number);
  }
  if (name == "log_verbosity_level") {
    return ort.SetSessionLogVerbosityLevel(options, number);
  }
  if (name == "enable_mem_pattern") {
    return number != 0 ? ort.EnableMemPattern(options) : ort.DisableMemPattern(options);
  }
  if (name == "enable_cpu_mem_arena") {
    return number != 0 ? ort.EnableCpuMemArena(options) : ort.DisableCpuMemArena(options);
  }
  if (name == "use_deterministic_compute") {
    return ort.SetDeterministicCompute(options, number != 0);
  }
  TORCH_CHECK_VALUE(false, "no session option has the name '", name, "'");
}

bool has(const StringDict& dict, const std::string& key, const std::string& value) {
  return dict.contains(key) && dict.at(key) == value;
}

// Another process has nothing at the addresses among them.
StringDict portable(const StringDict& options) {
  StringDict kept;
  for (const auto& option : options) {
    if (option.key() != "user_compute_stream" && !option.key().starts_with("gpu_external_")) {
      kept.insert(option.key(), option.value());
    }
  }
  return kept;
}

at::Tensor read_file(const std::string& path) {
  std::error_code unreadable;
  std::ifstream file(path, std::ios::binary);
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, unreadable));
  TORCH_CHECK(file.is_open() && !unreadable, "cannot save the session: its model file '", path,
              "' cannot be read any more");
  at::Tensor bytes = at::empty({size}, at::kByte);
  file.read(reinterpret_cast<char*>(bytes.mutable_data_ptr<uint8_t>()), size);
  TORCH_CHECK(file.gcount() == size, "cannot save the session: reading its model file '", path,
              "' gave ", file.gcount(), " of ", size, " bytes");
  return bytes;
}

}  // namespace

bool SessionConfig::moves_inputs() const { return has(entries, kMoveInputs, "1"); }

bool SessionConfig::runs_in_parallel() const {
  return has(properties, "execution_mode", std::to_string(ORT_PARALLEL));
}

bool SessionConfig::shares_allocators() const {
  return has(entries, "session.use_env_allocators", "1");
}

SessionOptionsHandle SessionConfig::make_options() const {
  OrtSessionOptions* created = nullptr;
  check_status(api().CreateSessionOptions(&created));
  SessionOptionsHandle options(created);
  for (const auto& property : properties) {
    check_status(set_property(created, property.key(), property.value()));
  }
  for (const auto& entry : entries) {
    check_status(api().AddSessionConfigEntry(created, entry.key().c_str(), entry.value().c_str()));
  }
  return options;
}

SessionState SessionConfig::state() const {
  std::vector<std::tuple<std::string, StringDict>> saved;
  saved.reserve(providers.size());
  for (const Provider& provider : providers) {
    saved.emplace_back(provider.name, portable(provider.options));
  }
  return {kStateVersion, model.defined() ? model.clone() : read_file(path), properties.copy(),
          entries.copy(), saved};
}

SessionConfig SessionConfig::from_state(SessionState state) {
  auto& [version, model, properties, entries, saved] = state;
  TORCH_CHECK_VALUE(version == kStateVersion, "the saved session has version ", version,
                    ", and this ortdl_torch reads version ", kStateVersion,
                    ": save it again with the same ortdl_torch that loads it");
  TORCH_CHECK_VALUE(model.defined() && model.layout() == at::kStrided && model.is_cpu() &&
                        model.scalar_type() == at::kByte && model.dim() == 1,
                    "the saved session holds no model: it is damaged");
  SessionConfig config{.model = model.clone(at::MemoryFormat::Contiguous),
                       .path = {},
                       .properties = properties.copy(),
                       .entries = entries.copy(),
                       .providers = {}};
  for (const auto& [name, options] : saved) {
    config.providers.push_back({name, options.copy()});
  }
  return config;
}

StringDict config_entries(const OrtSessionOptions* options) {
  OrtKeyValuePairs* raw = nullptr;
  check_status(api().GetSessionOptionsConfigEntries(options, &raw));
  const KeyValuesHandle pairs(raw);
  const char* const* keys = nullptr;
  const char* const* values = nullptr;
  size_t count = 0;
  api().GetKeyValuePairs(raw, &keys, &values, &count);
  StringDict entries;
  for (size_t i = 0; i < count; ++i) {
    entries.insert(keys[i], values[i]);
  }
  return entries;
}

}  // namespace ortdl
