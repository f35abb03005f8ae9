"""The bodies that change settings of a queue, a task or a budget, made from `windlass.store.fields`. A field
that is left out stays as it is; null restores the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from windlass.operations.operation import Text
from windlass.store.changes import READERS
from windlass.store.fields import Field, NewBudget, QueueSettings, TaskRecord, fields_of
from windlass.web.http.problems import Invalid

_TEXTS: Final = ("rate", "size", "cap")
"""Units of which a value may be a text."""


def _body(name: str, what: str, record: type[msgspec.Struct]) -> type[msgspec.Struct]:
    doc = (
        f"Settings of a {what}; what is left out stays as it is, null brings the default back. Times are in "
        "seconds, rates are so many a second or a text such as 5000/h; a size may be a text such as 128MiB, "
        "and a cap one such as 2M/day."
    )
    fields = [(field.name, _type(field), UNSET) for field in fields_of(record).values()]
    return msgspec.defstruct(
        name,
        fields,
        module=__name__,
        namespace={"__doc__": doc},
        kw_only=True,
        forbid_unknown_fields=True,
        omit_defaults=True,
    )


def _type(field: Field) -> Any:
    kind: Any = Text if field.kind is str else field.kind
    kind |= UnsetType
    if field.unit in _TEXTS:
        kind |= str
    if field.optional or (field.default is not None and field.kind is not bool):
        kind |= None
    return Annotated[kind, msgspec.Meta(description=f"{field.help} {field.more}".strip())]


BODIES: Final[Mapping[type[msgspec.Struct], type[msgspec.Struct]]] = {
    QueueSettings: _body("QueueChanges", "queue", QueueSettings),
    TaskRecord: _body("TaskChanges", "task", TaskRecord),
    NewBudget: _body("BudgetChanges", "budget", NewBudget),
}


def given(record: type[msgspec.Struct], body: msgspec.Struct) -> dict[str, Any]:
    """Return the settings that a body changes, as a store takes them."""
    fields = fields_of(record)
    return {
        name: _value(fields[name], value)
        for name, value in msgspec.structs.asdict(body).items()
        if value is not UNSET
    }


def _value(field: Field, value: Any) -> Any:
    if value is None:
        return field.default
    if field.unit not in _TEXTS or not isinstance(value, str):
        return value
    try:
        return READERS[field.unit](value)
    except ValueError as error:
        raise Invalid(str(error), field.name) from None
