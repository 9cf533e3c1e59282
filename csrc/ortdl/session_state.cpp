#include <ATen/ops/empty.h>
#include <ortdl/model_proto.h>
#include <ortdl/real_ops.h>
#include <ortdl/saved_bytes.h>
#include <ortdl/session_config.h>

#include <algorithm>
#include <set>
#include <span>

namespace ortdl {
namespace {

using detail::kDamaged;
using detail::owned;

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

// An entry by which ONNX Runtime reads or writes a file besides the model's.
bool names_file(const std::string& key) {
  return key.find("file") != std::string::npos || key.find("path") != std::string::npos;
}

StringDict without_files(const StringDict& entries) {
  StringDict kept;
  for (const auto& entry : entries) {
    if (!names_file(entry.key())) {
      kept.insert(entry.key(), entry.value());
    }
  }
  return kept;
}

ModelProto proto_of(const at::Tensor& model) {
  const std::span bytes(static_cast<const std::byte*>(model.const_data_ptr()), model.nbytes());
  return is_ort_format(bytes) ? ModelProto() : read_model_proto(bytes);
}

// What has to be true of external data that is to be read from memory.
void require_embeddable(const ModelProto& model, const std::vector<std::string>& names) {
  for (const std::string& location : model.external_locations) {
    TORCH_CHECK_VALUE(std::ranges::find(names, location) != names.end(),
                      "the session cannot be saved: its model was given as bytes, so it is not "
                      "known where its external data '",
                      location, "' is. Make the session from the path of the model's file");
  }
  TORCH_CHECK_VALUE(!model.external_elsewhere,
                    "the session cannot be saved with its model in it: external data of the model "
                    "is in other places than the initializers of its main graph, and ONNX Runtime "
                    "reads such data from files only. Make the session with embed=False, or save "
                    "the model without external data");
}

std::vector<SavedFile> embedded(const at::Tensor& model,
                                const std::vector<ExternalFile>& external_files) {
  const RealOps real;
  std::vector<SavedFile> saved{{"", "", model.clone()}};
  std::vector<std::string> names;
  for (const ExternalFile& file : external_files) {
    saved.emplace_back(file.name, "", file.bytes.clone());
    names.push_back(file.name);
  }
  require_embeddable(proto_of(model), names);
  return saved;
}

std::vector<SavedFile> embedded(const std::vector<ModelFile>& files) {
  std::vector<SavedFile> saved{{"", "", read_file(files.front())}};
  std::vector<std::string> names;
  std::ranges::transform(files, std::back_inserter(names), &ModelFile::name);
  require_embeddable(proto_of(std::get<at::Tensor>(saved.front())), names);
  for (const ModelFile& file : std::span(files).subspan(1)) {
    saved.emplace_back(file.name, "", read_file(file));
  }
  return saved;
}

std::vector<SavedFile> referred(const std::vector<ModelFile>& files) {
  const RealOps real;
  std::vector<SavedFile> saved;
  for (const ModelFile& file : files) {
    require_unchanged(file);
    saved.emplace_back(file.path, file.digest, at::empty({0}, at::kByte));
  }
  return saved;
}

bool is_text(const std::string& name) {
  return !name.empty() && name.find('\0') == std::string::npos;
}

void take_embedded(SessionConfig& config, std::vector<SavedFile>& files) {
  std::set<std::string> names;
  for (auto& [name, digest, bytes] : files) {
    const bool is_model = names.empty();
    TORCH_CHECK_VALUE(detail::holds_bytes(bytes), kDamaged, "it holds no bytes of ",
                      is_model ? "the model" : "a file of external data");
    TORCH_CHECK_VALUE(
        digest.empty() && (is_model ? name.empty() : is_text(name)) && names.insert(name).second,
        kDamaged, "a file in it has no name, or one that another has");
    if (is_model) {
      config.model = owned(bytes);
    } else {
      config.external_files.push_back({name, owned(bytes)});
    }
  }
}

void take_references(SessionConfig& config, const std::vector<SavedFile>& files) {
  config.embed = false;
  for (const auto& [path, digest, bytes] : files) {
    TORCH_CHECK_VALUE(is_text(path) && is_text(digest), kDamaged,
                      "it refers to a file without its path or digest");
    config.files.push_back({.path = path, .digest = digest});
  }
  config.path = config.files.front().path;
}

}  // namespace

SessionState SessionConfig::state() const {
  std::vector<SavedFile> saved_files;
  if (path.empty()) {
    saved_files = embedded(model, external_files);
  } else {
    const std::vector<ModelFile> found = files.empty() ? model_files(path, !embed) : files;
    require_inside(found);
    saved_files = embed ? embedded(found) : referred(found);
  }
  std::vector<std::tuple<std::string, StringDict>> saved;
  saved.reserve(providers.size());
  for (const Provider& provider : providers) {
    saved.emplace_back(provider.name, portable(provider.options));
  }
  return {kStateVersion, std::move(saved_files),         properties.copy(), without_files(entries),
          saved,         save_initializers(initializers)};
}

SessionConfig SessionConfig::from_state(SessionState state) {
  auto& [version, files, properties, entries, saved, saved_initializers] = state;
  require_version(version);
  TORCH_CHECK_VALUE(!files.empty(), kDamaged, "it holds no model");
  for (const auto& entry : entries) {
    TORCH_CHECK_VALUE(!names_file(entry.key()), kDamaged, "its entry '", entry.key(),
                      "' names a file, and what is saved has none such");
  }
  SessionConfig config{.properties = properties.copy(), .entries = entries.copy()};
  if (std::get<1>(files.front()).empty()) {
    take_embedded(config, files);
  } else {
    take_references(config, files);
  }
  for (const auto& [name, options] : saved) {
    config.providers.push_back({name, options.copy()});
  }
  config.initializers = load_initializers(std::move(saved_initializers));
  return config;
}

void SessionConfig::require_version(int64_t version) {
  TORCH_CHECK_VALUE(version == kStateVersion, "the saved session has version ", version,
                    ", and this ortdl_torch reads version ", kStateVersion,
                    ": save it again with the same ortdl_torch that loads it");
}

}  // namespace ortdl
