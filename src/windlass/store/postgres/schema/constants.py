"""Constants of Python that SQL names. In a file of SQL `:bucket.HELD_FOR` is the number HELD_FOR of the
module `bucket` below, `:states.FINISHED` a list of words, and `:caps.LONGEST` the arms of a CASE. Migrations
name none, since a table must not change with the code."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Final, get_args

from windlass.core import clock, ids, names, retry, states
from windlass.core.flow import admission, breaker, bucket, caps
from windlass.store import budgets, fields, signal_rules

MODULES: Final[Mapping[str, ModuleType]] = {
    module.__name__.rpartition(".")[2]: module
    for module in (
        admission, breaker, bucket, budgets, caps, clock, fields, ids, names, retry, signal_rules, states,
    )
}  # fmt: skip

NAMED: Final = re.compile(r"(?<!:):([a-z_]+)\.([A-Z]\w*)")


def with_constants(text: str) -> str:
    """Return SQL with what it names in its place."""
    return NAMED.sub(lambda found: _written(getattr(MODULES[found[1]], found[2])), text)


def _written(value: object) -> str:
    if isinstance(value, Mapping):
        return " ".join(f"WHEN '{word}' THEN {_written(each)}" for word, each in value.items())
    if isinstance(value, int | float):
        return f"{value:.10g}" if value % 1 else str(int(value))
    words = sorted(value) if isinstance(value, frozenset) else get_args(value)
    if not words:
        raise TypeError(f"SQL can name no {value!r}")
    return ", ".join(f"'{word}'" for word in words)
