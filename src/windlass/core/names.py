"""The one rule for the names of tasks and queues [E4], and the name a task gets when its author gives
none."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

from windlass.errors import InvalidName

MAX_LENGTH: Final = 64
_RULE: Final = re.compile(r"[a-z0-9_.-]{1,64}")
_FORBIDDEN: Final = re.compile(r"[^a-z0-9_.-]+")
_ALIKE: Final = 0.75
"""How alike two names must be for one to count as the other misspelt: from 0 to 1."""


def is_name(name: object) -> bool:
    """Return whether a name keeps the rule."""
    return isinstance(name, str) and _RULE.fullmatch(name) is not None


def check_name(noun: str, name: object) -> str:
    """Return the name if it keeps the rule; `noun` says in the error what was to be named."""
    if isinstance(name, str) and is_name(name):
        return name
    raise InvalidName(
        f"{noun} name {_shorten(name)} is not allowed: use 1 to {MAX_LENGTH} of the characters a-z 0-9 _ . -"
    )


def name_of(given: object) -> Any:
    """Return the name of a task or a queue that was given itself; anything else as it is."""
    return getattr(given, "name", given)


def nearest(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that a misspelt one is most like, if it is like any."""
    import difflib  # few processes ever need it

    found = difflib.get_close_matches(name, list(known), 1, _ALIKE)
    return found[0] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """Return the question after a name that there is not, to stand at the end of a sentence; or nothing."""
    found = nearest(name, known)
    return "" if found is None else f"; did you mean {found}?"


def meant_or_known(name: str, known: Iterable[str]) -> str:
    """Return the end of a sentence about a name that there is not: the known one that is meant, or all."""
    names = list(known)
    return did_you_mean(name, names) or f"; known: {', '.join(names)}"


def derive_name(module: str, qualname: str) -> str:
    """The default name of a task: its module and function, brought under the rule.

    `shop.Mail.<locals>.Send` becomes `shop.mail.send`. What is too long loses its front, since the function's
    own name stands at the end. Two functions may end up with one name; the app refuses the second.
    """
    path = f"{module}.{qualname}".replace("<locals>.", "").replace("<lambda>", "lambda").lower()
    return _FORBIDDEN.sub("_", path)[-MAX_LENGTH:].lstrip(".")


def _shorten(name: object) -> str:
    text = repr(name)
    return text if len(text) <= MAX_LENGTH + 16 else f"{text[:MAX_LENGTH]}…' ({len(text)} characters)"
