#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/providers.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

/// \file
/// What makes a session: its model, options and providers, and the form in which that is saved.
namespace ortdl {

/// The saved form: version, model, properties, config entries, providers.
using SessionState = std::tuple<int64_t, at::Tensor, StringDict, StringDict,
                                std::vector<std::tuple<std::string, StringDict>>>;

/// Everything a session is made from.
struct SessionConfig {
  /// The number that `state()` begins with; another one is refused on load.
  static constexpr int64_t kStateVersion = 1;

  /// The config entry that lets a session copy inputs to where it wants them, if it is "1".
  static constexpr const char* kMoveInputs = "ortdl.move_inputs";

  /// The model as a flat uint8 tensor; undefined when `path` names it.
  at::Tensor model = {};
  /// The model's file; empty when `model` holds it.
  std::string path = {};
  /// Properties of onnxruntime.SessionOptions by name, each an integer or text.
  StringDict properties = StringDict();
  /// Entries of onnxruntime.SessionOptions.add_session_config_entry.
  StringDict entries = StringDict();
  /// In order of preference; the CPU provider is always last.
  std::vector<Provider> providers = {};

  [[nodiscard]] bool moves_inputs() const;
  /// Whether nodes run in parallel (the property `execution_mode`).
  [[nodiscard]] bool runs_in_parallel() const;
  /// Whether the session uses the environment's allocators instead of its providers'.
  [[nodiscard]] bool shares_allocators() const;

  /// New options from `properties` and `entries`; providers are not in them yet.
  /// \throws c10::ValueError for a property that is unknown or no number where one is due.
  [[nodiscard]] SessionOptionsHandle make_options() const;

  /// The saved form. A model that came from a file is read again, so it is saved whole. Options of
  /// providers that are addresses in this process are left out.
  /// \throws c10::Error if the file is gone.
  [[nodiscard]] SessionState state() const;
  /// The configuration that `state()` saved.
  /// \throws c10::ValueError if the version is not `kStateVersion`.
  [[nodiscard]] static SessionConfig from_state(SessionState state);
};

/// The config entries that were added to `options`.
[[nodiscard]] StringDict config_entries(const OrtSessionOptions* options);

}  // namespace ortdl
