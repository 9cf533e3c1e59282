"""Words in error messages that depend on what they speak of."""


def counted(count: int, what: str) -> str:
    """``1 input``, ``2 inputs``."""
    return f"{count} {what}{'' if count == 1 else 's'}"


def were_given(count: int) -> str:
    """``1 was given``, ``2 were given``."""
    return f"{count} {'was' if count == 1 else 'were'} given"


def with_article(type_name: str) -> str:
    """``a tensor(float)``, ``an optional(tensor(float))``."""
    return f"{'an' if type_name[:1] in tuple('aeioAEIO') else 'a'} {type_name}"
