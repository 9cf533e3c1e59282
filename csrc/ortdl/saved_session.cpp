#include <ortdl/saved_session.h>

#include <algorithm>
#include <optional>

namespace ortdl {
namespace {

using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// What a thread saved last. Weak, so that it keeps neither the session nor the bytes.
struct LastSaved {
  c10::weak_intrusive_ptr<Session> session;
  WeakStorage bytes;
};

thread_local std::optional<LastSaved> last_saved;

bool same_providers(const std::vector<Provider>& providers,
                    const std::vector<std::tuple<std::string, StringDict>>& saved) {
  return std::ranges::equal(providers, saved, [](const Provider& provider, const auto& entry) {
    return provider.name == std::get<0>(entry) && provider.options == std::get<1>(entry);
  });
}

bool is_unchanged(const SessionState& state, const SessionConfig& config) {
  const auto& [version, model, properties, entries, providers] = state;
  // The version counter sees PyTorch's writes to the bytes since they were saved.
  return version == SessionConfig::kStateVersion && model._version() == 0 &&
         properties == config.properties && entries == config.entries &&
         same_providers(config.providers, providers);
}

SessionPtr living(const SessionState& state) {
  const at::Tensor& model = std::get<at::Tensor>(state);
  if (!last_saved.has_value() || !model.defined() || !model.has_storage()) {
    return {};
  }
  const auto bytes = last_saved->bytes.lock();
  if (!bytes.defined() || model.storage().unsafeGetStorageImpl() != bytes.get()) {
    return {};
  }
  SessionPtr session = last_saved->session.lock();
  return session.defined() && is_unchanged(state, session->config()) ? session : SessionPtr();
}

}  // namespace

SessionState save_session(const SessionPtr& session) {
  SessionState state = session->config().state();
  last_saved = {c10::weak_intrusive_ptr<Session>(session),
                std::get<at::Tensor>(state).storage().getWeakStorageImpl()};
  return state;
}

SessionPtr load_session(SessionState state) {
  if (SessionPtr session = living(state); session.defined()) {
    return session;
  }
  return c10::make_intrusive<Session>(SessionConfig::from_state(std::move(state)));
}

}  // namespace ortdl
