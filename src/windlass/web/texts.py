"""Texts that no store can keep are refused where they come in, in the same words whatever the store [M6]: NUL
bytes, and half characters (lone surrogates)."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from windlass.bulk import storable
from windlass.web.bodies import NewJobBody
from windlass.web.problems import Invalid

NOT_KEPT: Final = "holds a NUL byte or half a character, which no store can keep; leave it out"


def check_texts(value: Any, field: str | None = None) -> None:
    """Refuse a value that holds such a text, however deep. Jobs to enqueue are left to those who make them,
    who check every option, and may not be looked through twice: there are many."""
    match value:
        case str():
            if not storable(value):
                raise Invalid(f"{field or 'this text'} {NOT_KEPT}", field)
        case NewJobBody():
            pass
        case msgspec.Struct():
            for name in value.__struct_fields__:
                check_texts(getattr(value, name), name)
        case dict():
            for name, each in value.items():
                check_texts(name)
                check_texts(each, name)
        case list() | tuple():
            for each in value:
                check_texts(each, field)
