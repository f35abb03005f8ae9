"""How settings are changed, of queues [K1], of tasks [P6] and of budgets [F1]: what is unknown or makes no
sense is refused, and nothing is changed then. What makes sense is for each kind to say."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

import msgspec

R = TypeVar("R", bound=msgspec.Struct)


def merged(
    what: str,
    name: str,
    old: R,
    changes: Mapping[str, Any],
    known: Collection[str],
    check: Callable[[str, str, Any], None],
) -> R:
    """The record with these settings changed. Raises ValueError, as `check` does, which gets the name of the
    record, that of the setting, and the value."""
    unknown = set(changes) - set(known)
    if unknown:
        raise ValueError(
            f"a {what} has no setting called {', '.join(sorted(unknown))}; there are "
            f"{', '.join(sorted(known))}"
        )
    for setting, value in changes.items():
        check(name, setting, value)
    try:
        return msgspec.convert({**msgspec.structs.asdict(old), **changes}, type(old))
    except msgspec.ValidationError as error:
        raise ValueError(f"a setting of {what} {name!r} is wrong: {error}") from error
