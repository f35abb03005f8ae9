"""The one search box: `task:mail.send state:dead tag:vip queue:mail error:RuntimeError free text`, read and
written [M3].

A value with spaces stands in double quotes, with a backslash before each quote in it. Words without a name
are looked for in the payload, and in the last failure of dead and retrying jobs. There quotes that something
touches are its own: `"user": "joe"` is looked for as it stands, `"joe"` as joe. A name that there is none of
is refused: `jobs:dead` would be looked for there, and found nowhere.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.errors import InvalidName, InvalidOption
from windlass.operations.walks import job_filter
from windlass.presentation.text import one_line
from windlass.store.records import JobFilter
from windlass.web.http.problems import Invalid

MAX_SEARCH: Final = 1_000
NAMES: Final = ("task", "state", "queue", "tag", "error")
# A name is letters alone, so that 12:30, a.host:80 and https://… are text.
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_PIECE: Final = re.compile(
    rf"\s*(?:([A-Za-z_]+):(?!//))?(?:({_QUOTED})(?!\S)|((?:{_QUOTED}|\S)+))", re.DOTALL
)

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def read_search(text: str) -> JobFilter:
    """The filter that a search text describes. Raises Invalid for one that makes no sense."""
    if len(text) > MAX_SEARCH:
        raise Invalid(f"a search may have at most {MAX_SEARCH} characters", "q")
    found: dict[str, str] = {}
    free: list[str] = []
    pieces = _PIECE.findall(text)
    as_json = any(not word and '"' in plain for word, _, plain in pieces)
    for word, quoted, plain in pieces:
        name, value = word.lower(), _ESCAPED.sub(r"\1", quoted[1:-1]) or plain
        if not name:
            free.append(quoted or plain if as_json else value)
        elif name not in NAMES:
            known = ", ".join(f"{each}:" for each in NAMES)
            raise Invalid(f"unknown filter {name[:40]}: use {known}, or put text with a colon in quotes", "q")
        elif name in found:
            raise Invalid(f"{name}: is given twice; give it once", "q")
        else:
            found[name] = value.lower() if name == "state" else value
    try:
        return job_filter(**found, text=" ".join(free) or None)
    except (InvalidName, InvalidOption) as error:
        raise Invalid(one_line(str(error), 300), "q") from error


def write_search(where: JobFilter) -> str:
    """The search that reads as this filter."""
    pairs = ((name, getattr(where, name)) for name in NAMES)
    words = [f"{name}:{_quoted(str(value))}" for name, value in pairs if value is not None]
    # In quotes even where it is one word: `state:dead` may be what is looked for.
    return " ".join([*words, *([_in_quotes(where.text)] if where.text else [])])


def _quoted(value: str) -> str:
    if value and not re.search(r'[\s"\\]', value):
        return value
    return _in_quotes(value)


def _in_quotes(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
