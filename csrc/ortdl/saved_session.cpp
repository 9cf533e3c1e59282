#include <c10/core/InferenceMode.h>
#include <c10/util/StringUtil.h>
#include <ortdl/saved_session.h>

#include <algorithm>
#include <optional>

namespace ortdl {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// What a thread saved last. Weak, so that it keeps neither the session nor the bytes.
struct LastFile {
  std::string name;
  std::string digest;
  WeakStorage bytes;
  int64_t version;
};
struct LastSaved {
  c10::weak_intrusive_ptr<Session> session;
  std::vector<LastFile> files;
  std::vector<LastFile> initializers;
};

thread_local std::optional<LastSaved> last_saved;

bool is_same_file(const LastFile& last, const SavedFile& file) {
  const auto& [name, digest, bytes] = file;
  if (last.name != name || last.digest != digest || !bytes.defined() || !bytes.has_storage()) {
    return false;
  }
  const auto storage = last.bytes.lock();
  // The version counter sees PyTorch's writes to the bytes since they were saved.
  return storage.defined() && storage.get() == bytes.storage().unsafeGetStorageImpl() &&
         !bytes.is_inference() && bytes._version() == last.version;
}

bool is_same_initializer(const LastFile& last, const SavedInitializer& initializer) {
  const auto& [name, onnx, sizes, bytes] = initializer;
  return is_same_file(last, {name, "", bytes});
}

bool same_providers(const std::vector<Provider>& providers,
                    const std::vector<std::tuple<std::string, StringDict>>& saved) {
  return std::ranges::equal(providers, saved, [](const Provider& provider, const auto& entry) {
    return provider.name == std::get<0>(entry) && provider.options == std::get<1>(entry);
  });
}

bool is_unchanged(const SessionState& state, const LastSaved& last, const SessionConfig& config) {
  const auto& [version, files, properties, entries, providers, initializers] = state;
  return version == SessionConfig::kStateVersion &&
         std::ranges::equal(last.files, files, is_same_file) && properties == config.properties &&
         entries == config.entries && same_providers(config.providers, providers) &&
         std::ranges::equal(last.initializers, initializers, is_same_initializer);
}

SessionPtr living(const SessionState& state) {
  if (!last_saved.has_value()) {
    return {};
  }
  SessionPtr session = last_saved->session.lock();
  return session.defined() && session->runs_here() &&
                 is_unchanged(state, *last_saved, session->config())
             ? session
             : SessionPtr();
}

void require_offered(const std::vector<Provider>& providers) {
  const std::vector<std::string> offered = available_providers();
  for (const Provider& provider : providers) {
    TORCH_CHECK_VALUE(std::ranges::find(offered, provider.name) != offered.end(),
                      "the saved session runs on the execution provider '", provider.name,
                      "', and this ONNX Runtime (", runtime_version(), ") offers only ",
                      c10::Join(", ", offered),
                      ": install the onnxruntime package that has it, register its library "
                      "first if it is a plug-in, or make the session again with providers that "
                      "are here and save that");
  }
}

}  // namespace

SessionState save_session(const SessionPtr& session) {
  const c10::InferenceMode counted(false);  // the state's tensors are to count writes
  SessionState state = session->config().state();
  LastSaved saved{.session = c10::weak_intrusive_ptr<Session>(session)};
  for (const auto& [name, digest, bytes] : std::get<1>(state)) {
    saved.files.push_back({name, digest, bytes.storage().getWeakStorageImpl(),
                           static_cast<int64_t>(bytes._version())});
  }
  for (const auto& [name, onnx, sizes, bytes] : std::get<std::vector<SavedInitializer>>(state)) {
    saved.initializers.push_back(
        {name, "", bytes.storage().getWeakStorageImpl(), static_cast<int64_t>(bytes._version())});
  }
  last_saved = std::move(saved);
  return state;
}

SessionPtr load_session(SessionState state) {
  if (SessionPtr session = living(state); session.defined()) {
    return session;
  }
  SessionConfig config = SessionConfig::from_state(std::move(state));
  require_offered(config.providers);
  return c10::make_intrusive<Session>(config);
}

}  // namespace ortdl
