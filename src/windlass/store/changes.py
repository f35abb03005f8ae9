"""How settings are changed, of queues [K1], of tasks [P6] and of budgets [F1]: what is unknown or makes no
sense is refused, and nothing is changed then. What each may be stands in `windlass.store.fields`. PostgreSQL
compares the settings of a queue with each other itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

import msgspec

from windlass.core.durations import seconds, size
from windlass.core.flow.caps import cap_text
from windlass.core.flow.rates import per_second
from windlass.core.names import check_name, meant_or_known
from windlass.store.fields import TaskRecord, Unit, fields_of
from windlass.store.records import QueueRecord

R = TypeVar("R", bound=msgspec.Struct)
READERS: Final[Mapping[Unit, Callable[[Any], Any]]] = {
    "time": seconds, "rate": per_second, "size": size, "cap": cap_text,
}  # fmt: skip
"""Readers of what people write; values of other units are written as they are kept. They raise ValueError."""


def merged(what: str, name: str, old: R, changes: Mapping[str, Any]) -> R:
    """The record with these settings changed. Raises ValueError where one does not exist or makes no sense,
    whatever the others are."""
    fields = fields_of(type(old))
    if unknown := sorted(changes.keys() - fields.keys()):
        raise ValueError(
            f"a {what} has no setting called {', '.join(unknown)}{meant_or_known(unknown[0], sorted(fields))}"
        )
    kept = {setting: fields[setting].checked(what, name, value) for setting, value in changes.items()}
    return msgspec.structs.replace(old, **kept)


def changed_queue(old: QueueRecord, changes: Mapping[str, Any], retention: float) -> QueueRecord:
    """The queue with these settings changed. Raises ValueError, also where two do not go together, or one
    does not go with the retention of the store."""
    new = merged("queue", old.name, old, changes)
    if new.rate_min > new.rate_max:
        raise ValueError(f"rate_min of queue {old.name!r} cannot be above its rate_max, {new.rate_max:g}")
    # One that is as it was may stay: forms send it along, and the store's may have been shortened since.
    if new.retention != old.retention and new.retention is not None and new.retention > retention:
        raise ValueError(
            f"retention of queue {old.name} cannot be above that of the store, {retention:.0f} s. Raise that "
            "first with WINDLASS_RETENTION, or set a shorter one"
        )
    return new


def changed_task(old: TaskRecord, changes: Mapping[str, Any]) -> TaskRecord:
    """The task with these settings changed; None goes back to what the code says. Raises ValueError."""
    check_name("task", old.name)
    return merged("task", old.name, old, changes)


def read_settings(what: str, blank: QueueRecord | TaskRecord, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings as code writes them, such as "30s", "10/s" and "128MiB", as a store takes them; None is the
    default. `blank` has nothing but its name. Raises ValueError, as `merged` does."""
    fields = fields_of(type(blank))
    changes: dict[str, Any] = {}
    for setting, value in settings.items():
        field = fields.get(setting)
        if field is None:
            changes[setting] = value
        elif value is None:
            changes[setting] = field.default
        else:
            try:
                changes[setting] = READERS.get(field.unit, _as_is)(value)
            except ValueError as error:
                raise ValueError(f"{setting} of {what} {blank.name!r}: {error}") from None
    new = merged(what, blank.name, blank, changes)
    return {setting: getattr(new, setting) for setting in changes}


def _as_is(value: Any) -> Any:
    return value
