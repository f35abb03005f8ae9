"""Lists of columns for the SQL of both stores, made from the fields of records: a new field needs a column in
a migration of each store, and no other line of SQL. `{event}` in a statement is such a list."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from windlass.store.fields import SUBJECTS, fields_of
from windlass.store.records import Event, NewSchedule, ScheduleRecord


def _beyond(record: type[msgspec.Struct], *others: str) -> tuple[str, ...]:
    return tuple(name for name in record.__struct_fields__ if name not in others)


COLUMNS: Final[Mapping[str, Sequence[str]]] = {
    **{subject: tuple(fields_of(record)) for subject, record in SUBJECTS.items()},
    "event": _beyond(Event, "at"),
    "schedule": _beyond(ScheduleRecord, *NewSchedule.__struct_fields__),
}
"""The settings of queues, tasks and budgets; an event but for its time, which the store may correct; how a
schedule stands, beside its definition."""

_UNSAID: Final = {
    info.name: info.default
    for info in msgspec.structs.fields(Event)
    if info.default not in (msgspec.NODEFAULT, None)
}
FRAGMENTS: Final[Mapping[str, str]] = {
    **{f"{{{name}}}": ", ".join(columns) for name, columns in COLUMNS.items()},
    **{f"{{{name} ?}}": ", ".join("?" * len(columns)) for name, columns in COLUMNS.items()},
    **{
        f"{{{name} =}}": ", ".join(f"{column} = excluded.{column}" for column in columns)
        for name, columns in COLUMNS.items()
    },
    "{unsaid of an event}": msgspec.json.encode(_UNSAID).decode(),
}
"""The text for each mark in SQL: the columns, as many bindings, and their new values where a row is there;
as JSON what an event has that does not say so."""
