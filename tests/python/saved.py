"""The saved form of sessions, taken apart and put together."""

from typing import Any

from models import unary

from ortdl_torch import InferenceSession


def state_of(session: InferenceSession) -> list[Any]:
    """The saved form as a list: version, files, properties, entries, providers, initializers."""
    _rebuild, (_cls, state) = session.__reduce_ex__(4)
    return list(state)


def loaded(state: Any) -> InferenceSession:
    """The session that a saved form describes."""
    rebuild, (cls, _state) = InferenceSession(unary("Relu")).__reduce_ex__(4)
    return rebuild(cls, state)
