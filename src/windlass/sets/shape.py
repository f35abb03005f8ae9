"""The shape of a set's table: names that were checked, and rows that were checked against them. No I/O."""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any, Final

from windlass.errors import ConfigurationError

# Quoted they would all be harmless. The rule keeps out what is no name at all, and whatever a driver might
# take for a placeholder.
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,62}")
_MAX_RUN: Final = 2**63 - 1


class Shape:
    """The table and its columns by their part: scope and key name a row, hash and run are ours."""

    def __init__(
        self, table: str, key: Sequence[str], columns: Sequence[str], scope: str | None, hash: str, run: str
    ) -> None:
        if not key:
            raise ConfigurationError(f"a row of {table!r} is found by its key: name at least one column")
        self.table: Final = ".".join(_quoted(part) for part in _table_parts(table))
        self.key: Final = tuple(key)
        self.columns: Final = tuple(columns)
        self.scope: Final = scope
        self.hash: Final = hash
        self.run: Final = run
        self.identity: Final = (*((scope,) if scope is not None else ()), *self.key)
        """The columns of the table's primary key or unique constraint."""
        self.content: Final = (*self.columns, hash, run)
        self.all: Final = (*self.identity, *self.content)
        self._expected = {*self.key, *self.columns, hash}
        for name in self.all:
            _quoted(name)
        if len({name.lower() for name in self.all}) < len(self.all):
            raise ConfigurationError(f"{table!r}: a column is named twice in {', '.join(self.all)}")

    def check_run(self, run: int) -> int:
        """The run, if it can be stored and compared."""
        if type(run) is int and 0 < run <= _MAX_RUN:
            return run
        raise ValueError(f"run is {run!r}; it is a whole number above 0, see windlass.sets.run_number")

    def scope_of(self, value: Any) -> dict[str, Any]:
        """The scope as part of a row; nothing where the table holds one set only."""
        if self.scope is None:
            if value is None:
                return {}
            raise ValueError(f"scope={value!r} is given, and this set of {self.table} has no scope column")
        if value is None:
            raise ValueError(f"rows of {self.table} are told apart by {self.scope!r}: pass scope=")
        return {self.scope: value}

    def key_of(self, key: Hashable) -> dict[str, Any]:
        """A key as part of a row: a single value, or a tuple where there are several columns."""
        values = key if len(self.key) > 1 else (key,)
        if not isinstance(values, tuple) or len(values) != len(self.key) or None in values:
            raise ValueError(f"key {key!r} does not fit the columns {', '.join(self.key)} of {self.table}")
        return dict(zip(self.key, values, strict=True))

    def asked(self, hashes: Mapping[Any, str], scope: Any) -> list[dict[str, Any]]:
        """Keys and hashes to compare with what is stored."""
        at = self.scope_of(scope)
        return [{**at, **self.key_of(key), self.hash: self._hash_of(key, hashes[key])} for key in hashes]

    def written(self, run: int, rows: Iterable[Mapping[str, Any]], scope: Any) -> list[dict[str, Any]]:
        """Whole rows, of each key the last one: a statement can write a row only once."""
        at = self.scope_of(scope)
        by_key: dict[tuple[Any, ...], dict[str, Any]] = {}
        for row in rows:
            if row.keys() != self._expected:
                raise ValueError(self._misfit(row))
            key = tuple(row[name] for name in self.key)
            self.key_of(key if len(key) > 1 else key[0])
            self._hash_of(key, row[self.hash])
            by_key[key] = {**at, **row, self.run: run}
        return list(by_key.values())

    def _hash_of(self, key: Hashable, hash: Any) -> str:
        if isinstance(hash, str) and hash:
            return hash
        raise ValueError(f"the hash of {key!r} is {hash!r}; it is a text, see windlass.sets.content_hash")

    def _misfit(self, row: Mapping[str, Any]) -> str:
        lacking, unknown = sorted(self._expected - row.keys()), sorted(row.keys() - self._expected)
        faults = [f"lacks {', '.join(lacking)}"] if lacking else []
        faults += [f"holds {', '.join(unknown)}, which this set does not write"] if unknown else []
        return f"a row for {self.table} {' and '.join(faults)}"


def quoted(names: Iterable[str], prefix: str = "") -> str:
    """The names in quotes, with commas between them."""
    return ", ".join(f"{prefix}{_quoted(name)}" for name in names)


def _table_parts(table: str) -> list[str]:
    parts = table.split(".")
    if len(parts) > 2:
        raise ConfigurationError(f"table {table!r} has more parts than a schema and a name")
    return parts


def _quoted(name: str) -> str:
    if _NAME.fullmatch(name):
        return f'"{name}"'
    raise ConfigurationError(
        f"{name!r} cannot name a table or column here: use at most 63 of the letters a-z and A-Z, digits and "
        "_, with no digit first"
    )
