#pragma once

#include <ATen/core/Tensor.h>
#include <ortdl/initializers.h>
#include <ortdl/model_files.h>
#include <ortdl/providers.h>

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

/// \file
/// What makes a session: its model, options and providers, and the form in which that is saved.
namespace ortdl {

/// A file in the saved form. Embedded: its name in the model ("" for the model's own), no digest,
/// its bytes. By reference: its absolute path, its digest, no bytes.
using SavedFile = std::tuple<std::string, std::string, at::Tensor>;

/// The saved form: version, files (the model's own first), properties, config entries, providers,
/// initializers.
using SessionState =
    std::tuple<int64_t, std::vector<SavedFile>, StringDict, StringDict,
               std::vector<std::tuple<std::string, StringDict>>, std::vector<SavedInitializer>>;

/// A file that a model names for external data, in memory.
struct ExternalFile {
  std::string name;  ///< as the model has it
  at::Tensor bytes;  ///< flat, uint8, contiguous, on the CPU
};

/// Everything a session is made from.
struct SessionConfig {
  /// The number that `state()` begins with; another one is refused on load.
  static constexpr int64_t kStateVersion = 2;

  /// The config entry that lets a session copy inputs to where it wants them, if it is "1".
  static constexpr const char* kMoveInputs = "ortdl.move_inputs";

  /// The model as a flat uint8 tensor; undefined when `path` names it.
  at::Tensor model = {};
  /// The model's file; empty when `model` holds it.
  std::string path = {};
  /// Files of external data that a model given as `model` has no folder for.
  std::vector<ExternalFile> external_files = {};
  /// Whether the saved form holds the model, with its external data, or the path and the digest of
  /// each file.
  bool embed = true;
  /// The files behind `path`, which a session fills in as it is loaded. Digests given here must be
  /// those that it finds.
  std::vector<ModelFile> files = {};
  /// Properties of onnxruntime.SessionOptions by name, each an integer or text.
  StringDict properties = StringDict();
  /// Entries of onnxruntime.SessionOptions.add_session_config_entry.
  StringDict entries = StringDict();
  /// In order of preference; the CPU provider is always last.
  std::vector<Provider> providers = {};
  /// What the session computes with instead of the model's own weights. The memory is shared and
  /// kept alive; writes to it are seen by the next run, which costs graph optimizations and
  /// prepacking. The providers must be the CPU's.
  std::vector<NamedValue> initializers = {};

  [[nodiscard]] bool moves_inputs() const;
  /// Whether nodes run in parallel (the property `execution_mode`).
  [[nodiscard]] bool runs_in_parallel() const;
  /// Whether ONNX Runtime may run the session on threads other than the caller's.
  [[nodiscard]] bool may_use_threads() const;
  /// Whether the session uses the environment's allocators instead of its providers'.
  [[nodiscard]] bool shares_allocators() const;

  /// New options from `properties` and `entries`; providers are not in them yet.
  /// \throws c10::ValueError for a property that is unknown or no number where one is due.
  [[nodiscard]] SessionOptionsHandle make_options() const;

  /// The saved form. With `embed`, the files are read again now. Options of providers that are
  /// addresses in this process are left out.
  /// \throws c10::Error if a file is gone, or has changed since the session was loaded.
  /// \throws c10::ValueError if the external data cannot be saved: it is outside of the model's
  ///   folder, has no folder, or is used where ONNX Runtime takes none from memory.
  [[nodiscard]] SessionState state() const;
  /// The configuration that `state()` saved; memory that only `state` holds is taken, not copied.
  /// \throws c10::ValueError if the version is not `kStateVersion`, or the state makes no sense.
  [[nodiscard]] static SessionConfig from_state(SessionState state);
  /// \throws c10::ValueError if a saved form of `version` cannot be read.
  static void require_version(int64_t version);
};

/// Let the session's threads stop spinning when its last run ends, unless `options` say anything
/// of intra-op spinning themselves: PyTorch's threads need the cores then.
void stop_spinning_after_runs(OrtSessionOptions* options);

/// The config entries that were added to `options`.
[[nodiscard]] StringDict config_entries(const OrtSessionOptions* options);

}  // namespace ortdl
