"""Which errors of a task are worth another attempt: `Retry(on=…, never=…)` [O9]. The error itself is judged,
by its class and the classes that it derives from; what caused it is not.

A class may be named as text, "httpx.TimeoutException", where its module is an optional dependency. Nothing is
imported for it: an error of that class can only be raised once its module is loaded.
"""

from __future__ import annotations

import builtins
import sys
from collections.abc import Iterable
from typing import Any, Final, TypeAlias

import msgspec

ErrorKind: TypeAlias = type[BaseException] | str
"""An exception class, or its name: "ValueError", "httpx.TimeoutException"."""


class RetryRules(msgspec.Struct, frozen=True):
    """The rules of a policy about errors. Without rules every error is retried."""

    on: tuple[ErrorKind, ...] = ()
    """Where not empty, only these are retried."""
    never: tuple[ErrorKind, ...] = ()
    """These are not, whatever `on` says."""

    def refusal(self, error: BaseException) -> str | None:
        """Why this error is not retried; None: it is."""
        own = kind_name(type(error))
        if (found := _match(error, self.never)) is not None:
            name = kind_name(found)
            return (
                f"not retried: {own} is in never"
                if name == own
                else f"not retried: {own} is a {name}, in never"
            )
        if self.on and _match(error, self.on) is None:
            return f"not retried: {own} is not in on"
        return None


NO_RULES: Final = RetryRules()


def check_kinds(given: Any) -> tuple[ErrorKind, ...]:
    """Return what a user gave for `on` or `never` as a tuple. Raises ValueError that names what is wrong."""
    if isinstance(given, str | type) or not isinstance(given, Iterable):
        given = (given,)
    return tuple(_checked(kind) for kind in given)


def _checked(kind: Any) -> ErrorKind:
    if isinstance(kind, type) and issubclass(kind, BaseException):
        return kind
    if not isinstance(kind, str):
        raise ValueError(f"{kind!r} is not an exception class; write ValueError, or 'module.Class' as text")
    if not all(part.isidentifier() for part in kind.split(".")):
        raise ValueError(f"{kind!r} is not the name of an exception class; write it like 'httpx.HTTPError'")
    if "." in kind:
        return kind
    found = getattr(builtins, kind, None)
    if not (isinstance(found, type) and issubclass(found, BaseException)):
        raise ValueError(f"Python has no exception {kind!r}; write its module, too: 'module.{kind}'")
    return found


def kind_name(kind: ErrorKind) -> str:
    """`ValueError`, `shop.mail.Bounced`."""
    if isinstance(kind, str):
        return kind
    return kind.__qualname__ if kind.__module__ == "builtins" else f"{kind.__module__}.{kind.__qualname__}"


def _match(error: BaseException, kinds: tuple[ErrorKind, ...]) -> ErrorKind | None:
    """The first of these that the error is one of."""
    for kind in kinds:
        found = _loaded(kind) if isinstance(kind, str) else kind
        if found is not None and isinstance(error, found):
            return kind
    return None


def _loaded(name: str) -> type[BaseException] | None:
    """The class of this name, where its module is loaded; the class may be nested in another."""
    module, _, rest = name.rpartition(".")
    path = [rest]
    while module:
        if module in sys.modules:
            found: Any = sys.modules[module]
            for part in path:
                found = getattr(found, part, None)
            return found if isinstance(found, type) and issubclass(found, BaseException) else None
        module, _, rest = module.rpartition(".")
        path.insert(0, rest)
    return None
