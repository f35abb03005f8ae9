"""How settings are changed, of queues [K1], of tasks [P6] and of budgets [F1]: what is unknown or makes no
sense is refused, and nothing is changed then. What each may be stands in `windlass.store.fields`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from windlass.store.fields import fields_of

R = TypeVar("R", bound=msgspec.Struct)


def merged(what: str, name: str, old: R, changes: Mapping[str, Any]) -> R:
    """The record with these settings changed. Raises ValueError."""
    fields = fields_of(type(old))
    if unknown := sorted(changes.keys() - fields.keys()):
        raise ValueError(
            f"a {what} has no setting called {', '.join(unknown)}; there are {', '.join(sorted(fields))}"
        )
    kept = {setting: fields[setting].checked(what, name, value) for setting, value in changes.items()}
    return msgspec.structs.replace(old, **kept)
