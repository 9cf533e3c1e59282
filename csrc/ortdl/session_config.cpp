#include <ortdl/session_config.h>

#include <charconv>

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
  if (name == "use_per_session_threads") {
    return number != 0 ? nullptr : ort.DisablePerSessionThreads(options);
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

}  // namespace

bool SessionConfig::moves_inputs() const { return has(entries, kMoveInputs, "1"); }

bool SessionConfig::runs_in_parallel() const {
  return has(properties, "execution_mode", std::to_string(ORT_PARALLEL));
}

bool SessionConfig::may_use_threads() const {
  // 0, the default, stands for as many as there are cores.
  return !has(properties, "intra_op_num_threads", "1") ||
         has(properties, "use_per_session_threads", "0") || runs_in_parallel();
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
  stop_spinning_after_runs(created);
  return options;
}

void stop_spinning_after_runs(OrtSessionOptions* options) {
  constexpr const char* stop = "session.force_spinning_stop";
  for (const char* key : {stop, "session.intra_op.allow_spinning"}) {
    int said = 0;
    check_status(api().HasSessionConfigEntry(options, key, &said));
    if (said != 0) {
      return;
    }
  }
  check_status(api().AddSessionConfigEntry(options, stop, "1"));
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
