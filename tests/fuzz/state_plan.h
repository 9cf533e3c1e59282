#pragma once

#include <ATen/core/ivalue.h>
#include <ortdl/session_config.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "check.h"
#include "folder.h"

/// \file
/// The saved form of a session as an archive may hold it: of any values, which the input decides.
namespace ortdl::fuzz {

/// The models that a state may hold.
struct Models {
  std::string relu;      ///< y = Relu(x)
  std::string weighted;  ///< y = x + w, and w is (1, 1)
  std::string external;  ///< y = x + w, and w is the file w.bin
  static const Models& get();
};

/// A state, and what is known of it.
struct StatePlan {
  c10::IValue state;
  /// Whether all is as `save_session` writes it, so that it has to load.
  bool sound = true;
  /// Whether something must keep it from being loaded.
  bool damaged = false;
  bool by_reference = false;
  const std::string* model = nullptr;  ///< which of `Models`, if `sound`
  /// What the embedded files hold, the model's first.
  std::vector<std::pair<std::string, std::string>> files = {};
  /// The bytes of the initializer `w`.
  std::optional<std::string> weight = std::nullopt;

  static StatePlan read(Reader& reader, const Folder& folder);
};

/// The bytes of a flat tensor.
std::string bytes_of(const at::Tensor& tensor);

}  // namespace ortdl::fuzz
