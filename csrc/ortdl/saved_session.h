#pragma once

#include <ortdl/session.h>

/// \file
/// Sessions as PyTorch saves, loads and deep-copies them.
namespace ortdl {

/// The saved form of `session`. \throws as `SessionConfig::state` does.
[[nodiscard]] SessionState save_session(const SessionPtr& session);

/// The session that `state` describes: the very one that this thread saved last if `state` is what
/// it got, unchanged, and the session still lives; else a new one.
///
/// torch.compile deep-copies each session that it traces, several times over, and PyTorch's caches
/// keep the copies: each would load the model again. A session is immutable, so one serves all.
/// \throws c10::ValueError if this ONNX Runtime lacks a provider of it; else as
/// `SessionConfig::from_state` and `Session`'s constructor do.
[[nodiscard]] SessionPtr load_session(SessionState state);

}  // namespace ortdl
