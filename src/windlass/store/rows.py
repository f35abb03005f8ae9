"""How a row becomes a record: one codec for every store, made from the fields of the record.

A field is the column of its name, and its type says how it is read. A store says only how it keeps the types
that it has in a way of its own; every other struct, list or value of any kind is kept as JSON text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from types import NoneType
from typing import Annotated, Any, Final, Literal, TypeAlias, TypeVar, get_args, get_origin

import msgspec
from msgspec import convert

from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import State
from windlass.store.records import Vitals

R = TypeVar("R", bound=msgspec.Struct)
Reader: TypeAlias = Callable[[Any], Any]
_PLAIN: Final = (int, float, bool, str, State)
_ABSENT: Final = object()


class RowCodec:
    """Turns the rows of a store into records. A row is a mapping."""

    def __init__(self, readers: Mapping[Any, Reader]) -> None:
        """Take the readers of the types that this store keeps in a way of its own."""
        self._readers = {Vitals: readable_vitals, **readers}
        self._read = functools.cache(self._read_of)

    def record_of(self, kind: type[R], row: Any, **others: Any) -> R:
        """Return a row as a record; the others are not in it, or stand for what is. A field without a column
        has its default, as has one that is not kept as it is and is NULL. A dict is filled in."""
        values: dict[str, Any] = row if isinstance(row, dict) else dict(row.items())
        for name, read, default in self._read(kind):
            if name not in others and (value := values.get(name, _ABSENT)) is not _ABSENT:
                values[name] = default() if value is None else read(value)
        values.update(others)
        return convert(values, kind)

    def _read_of(self, kind: type[msgspec.Struct]) -> tuple[tuple[str, Reader, Callable[[], Any]], ...]:
        found = ((field, self._reader(field.type)) for field in msgspec.structs.fields(kind))
        return tuple((field.name, read, _default(field)) for field, read in found if read is not None)

    def _reader(self, annotation: Any) -> Reader | None:
        """Return how a column of this type is read; None as it is."""
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        kinds = [each for each in get_args(annotation) if each is not NoneType]
        if NoneType in get_args(annotation) and len(kinds) == 1:
            return self._reader(kinds[0])
        if annotation in self._readers:
            return self._readers[annotation]
        if annotation in _PLAIN or get_origin(annotation) is Literal:
            return None
        return msgspec.json.Decoder(annotation).decode


def _default(field: msgspec.structs.FieldInfo) -> Callable[[], Any]:
    made = field.default_factory
    return (lambda: field.default) if made is msgspec.NODEFAULT else made


def readable_vitals(text: str) -> Vitals | None:
    """Return the vitals that a worker reported; None where they cannot be read. Rescues list workers, too:
    they must not fail for what only pages show, maybe in the words of a newer version."""
    try:
        return _vitals(text)
    except READ_ERRORS:
        return None


_vitals = msgspec.json.Decoder(Vitals).decode
