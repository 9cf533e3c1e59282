#pragma once

#include <ATen/core/Dict.h>
#include <ATen/core/Tensor.h>
#include <ortdl/runtime.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

/// \file
/// What makes a session: its model, options and providers, and the form in which that is saved.
namespace ortdl {

using StringDict = c10::Dict<std::string, std::string>;

/// An execution provider and its options, as onnxruntime names them.
struct Provider {
  std::string name;
  StringDict options;
};

/// The saved form: version, model, properties, config entries, providers.
using SessionState = std::tuple<int64_t, at::Tensor, StringDict, StringDict,
                                std::vector<std::tuple<std::string, StringDict>>>;

/// Everything a session is made from.
struct SessionConfig {
  /// The number that `state()` begins with; another one is refused on load.
  static constexpr int64_t kStateVersion = 1;

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

  /// New options from `properties` and `entries`; providers are not in them yet.
  /// \throws c10::ValueError for a property that is unknown or no number where one is due.
  [[nodiscard]] SessionOptionsHandle make_options() const;
  /// Let sessions made from `options` run on `providers`.
  /// \throws c10::ValueError if the runtime does not offer one, listing those it does.
  void append_providers(OrtSessionOptions* options) const;

  /// The saved form. A model that came from a file is read again, so it is saved whole.
  /// \throws c10::Error if the file is gone.
  [[nodiscard]] SessionState state() const;
  /// The configuration that `state()` saved.
  /// \throws c10::ValueError if the version is not `kStateVersion`.
  [[nodiscard]] static SessionConfig from_state(SessionState state);
};

/// The config entries that were added to `options`.
[[nodiscard]] StringDict config_entries(const OrtSessionOptions* options);

/// The execution providers that the runtime in use offers.
[[nodiscard]] std::vector<std::string> available_providers();

}  // namespace ortdl
