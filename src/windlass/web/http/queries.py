"""The query of an address: what an address does not read is refused, so that nobody takes a whole list for
what they asked for. Probes (/healthz, /readyz) and files (/static) are the only ones that take any query."""

from __future__ import annotations

from collections.abc import Collection
from typing import Final
from urllib.parse import parse_qsl

from windlass.web.http.problems import Invalid

MAX_FIELDS: Final = 50


def choice(name: str, word: str | None, known: Collection[str]) -> str:
    """Read what may be chosen from a few; "" where nothing is. Raises Invalid for what is not among them."""
    if word and word not in known:
        raise Invalid(f"{name} must be one of {', '.join(known)}, not {word[:40]!r}", name)
    return word or ""


def read_query(raw: bytes, known: Collection[str]) -> dict[str, str]:
    """Read a query. Raises Invalid for one that names what is not in `known`, or one thing twice."""
    try:
        pairs = parse_qsl(
            raw.decode("ascii"), keep_blank_values=True, max_num_fields=MAX_FIELDS, errors="strict"
        )
    except ValueError:
        raise Invalid("the query cannot be read; write it as key=value&key=value in UTF-8") from None
    found = dict(pairs)
    if len(found) < len(pairs):
        raise Invalid("the query says something twice; say each thing once")
    if strange := sorted(found.keys() - known):
        name, takes = strange[0][:40], ", ".join(known) or "none"
        raise Invalid(f"unknown parameter {name!r}; this address takes {takes}", name)
    return found
