"""How things are written: hostile text made harmless, times and spans, JSON inside JSON.

Task names, payloads, errors and labels come from anywhere. They reach a terminal only through `harmless`, as
plain text and never as markup [M5].
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from functools import cache
from typing import Any, Final, TypeVar

import msgspec

from windlass.codec import sealed_in_words
from windlass.core.counts import plural
from windlass.core.harmless import harmless

Shape = dict[str, Any]
"""A record as a JSON object."""
S = TypeVar("S", bound=msgspec.Struct)

_UNITS: Final = (("y", 365 * 86400), ("d", 86400), ("h", 3600), ("min", 60), ("s", 1))
COUNTED: Final = 10_000
"""Jobs in a line are counted up to this."""


def one_line(text: str, most: int = 2000) -> str:
    """Harmless text on one line, cut to a length."""
    line = harmless(" ".join(text.split()))
    return line if len(line) <= most else line[: most - 1] + "…"


def rounded(number: float | None) -> float | None:
    """A number as JSON has it: three digits; null stays null."""
    return None if number is None else round(number, 3)


def capped(count: int, most: int = COUNTED) -> str:
    """A count that a store breaks off when it is large."""
    return f"{count:,}" if count < most else f"{most:,}+"


def parts_at_a_time(parallel: int | None) -> str:
    """How many parts of a parent may run at a time [P8]."""
    return (
        "any number of parts at a time" if parallel is None else f"up to {plural(parallel, 'part')} at a time"
    )


# -- times ----------------------------------------------------------------------------------------------


def span(seconds: float) -> str:
    """A span of time in its two largest units: 33 ms, 45 s, 3 min 20 s, 2 d 4 h."""
    if 0.0005 <= seconds < 0.1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 10:
        return f"{max(seconds, 0.0):.1f} s".replace(".0 ", " ")
    whole = int(seconds)
    largest = next(place for place, (_, size) in enumerate(_UNITS) if whole >= size)
    shown = []
    for unit, size in _UNITS[largest : largest + 2]:
        if whole >= size:
            shown.append(f"{whole // size} {unit}")
            whole %= size
    return " ".join(shown)


def iso(moment: float | None) -> str | None:
    """A time as JSON has it: ISO 8601, UTC."""
    if moment is None:
        return None
    return datetime.fromtimestamp(moment, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(moment: float, now: float | None = None) -> str:
    """A time as people read it: local, with its zone and how far away it is."""
    shown = datetime.fromtimestamp(moment, UTC).astimezone()
    return f"{shown:%Y-%m-%d %H:%M:%S %Z} ({_away(moment, time.time() if now is None else now)})"


def moment(text: str) -> float:
    """Return a time as JSON has it in seconds since the epoch."""
    return datetime.fromisoformat(text).timestamp()


def local_of(text: str, now: float | None = None) -> str:
    """Return a time as JSON has it as people read it: local, with its zone and how far away it is."""
    return local(moment(text), now)


def in_zone(moment: float, zone: tzinfo, now: float) -> str:
    """A time as people read it in another zone, with its weekday and how far away it is."""
    return f"{datetime.fromtimestamp(moment, zone):%a %Y-%m-%d %H:%M:%S %Z} ({_away(moment, now)})"


def _away(moment: float, now: float) -> str:
    away = moment - now
    return f"in {span(away)}" if away > 0 else f"{span(-away)} ago"


# -- JSON -----------------------------------------------------------------------------------------------


def shaped(shape: type[S], *records: msgspec.Struct, **given: Any) -> S:
    """A shape of what records have in common with it, and of what is given."""
    return shape(**shared(shape, *records, **given))


def shared(shape: type[msgspec.Struct], *records: msgspec.Struct, **given: Any) -> Shape:
    """Return what records have in common with a shape, and what is given. What is a number in a record and a
    text in the shape is a time, by its name, or an id."""
    writers = _writers_of(shape)
    for record in records:
        for name in record.__struct_fields__:
            if name in writers and name not in given:
                value, write = getattr(record, name), writers[name]
                given[name] = value if write is None or value is None else write(value)
    return given


@cache
def _writers_of(shape: type[msgspec.Struct]) -> dict[str, Callable[[Any], Any] | None]:
    """How each field of a shape is written, by its name; None as it is."""
    writers: dict[str, Callable[[Any], Any] | None] = dict.fromkeys(shape.__struct_fields__)
    for field in msgspec.structs.fields(shape):
        if field.type in (str, str | None):
            is_time = field.name == "at" or field.name.endswith(("_at", "_since", "_until"))
            writers[field.name] = iso if is_time else str
    return writers


def plain(shape: msgspec.Struct) -> Shape:
    """A shape as a JSON object."""
    found: Shape = msgspec.to_builtins(shape)
    return found


def kept_line(text: str, most: int = 2000) -> str:
    """A kept JSON text on one line; what a codec has sealed in words alone: encrypted (key 2026-01)."""
    return one_line(sealed_in_words(text) or text, most)


def parsed(text: str | None) -> Any:
    """A kept JSON text as part of a larger one. What cannot be read here is given as it stands, and what a
    codec has sealed in words alone."""
    if text is None:
        return None
    if (sealed := sealed_in_words(text)) is not None:
        return sealed
    try:
        return json.loads(text, parse_float=_number, parse_constant=str)
    except (ValueError, RecursionError):
        return text


def _number(digits: str) -> float | str:
    number = float(digits)
    return number if math.isfinite(number) else digits
