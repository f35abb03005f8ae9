"""The one search box: `task:mail.send state:dead tag:vip queue:mail free text`, read and written [M3].

A value with spaces stands in double quotes. Words without a name are looked for in the payload.
"""

from __future__ import annotations

import re
from typing import Final

from windlass.bulk import job_filter
from windlass.errors import InvalidName, InvalidOption
from windlass.store.records import JobFilter
from windlass.web.problems import Invalid
from windlass.words.text import one_line

MOST: Final = 500
NAMES: Final = ("task", "state", "queue", "tag")
_PIECE: Final = re.compile(r'\s*(?:(task|state|queue|tag):)?(?:"((?:[^"\\]|\\.)*)"|(\S+))', re.IGNORECASE)


def read_search(text: str) -> JobFilter:
    """What to look for. Raises Invalid where it makes no sense."""
    if len(text) > MOST:
        raise Invalid(f"a search may have at most {MOST} characters", "q")
    found: dict[str, str] = {}
    free: list[str] = []
    for name, quoted, plain in _PIECE.findall(text):
        value = re.sub(r"\\(.)", r"\1", quoted) or plain
        if not name:
            free.append(value)
        elif name.lower() in found:
            raise Invalid(f"{name.lower()}: is given twice, and only one can be looked for", "q")
        else:
            found[name.lower()] = value.lower() if name.lower() == "state" else value
    try:
        return job_filter(**found, text=" ".join(free) or None)
    except (InvalidName, InvalidOption) as error:
        raise Invalid(one_line(str(error), 300), "q") from error


def write_search(where: JobFilter) -> str:
    """The search that reads as this filter."""
    pairs = ((name, getattr(where, name)) for name in NAMES)
    words = [f"{name}:{_quoted(str(value))}" for name, value in pairs if value is not None]
    return " ".join([*words, *([where.text] if where.text else [])])


def _quoted(value: str) -> str:
    if value and not re.search(r'[\s"\\]', value):
        return value
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
