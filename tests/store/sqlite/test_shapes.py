"""Rows that are read by position are bound to their struct: whoever adds a field, or a column, in one place
alone is told here."""

import re
from collections.abc import Iterator
from dataclasses import fields
from pathlib import Path

import apsw
import apsw.ext
import pytest

from tests.store.sqlite.kit import opened
from windlass.store.sqlite.listing import Seen
from windlass.store.sqlite.operation.lanes import Lane
from windlass.store.sqlite.parents import Parent
from windlass.store.sqlite.rows import Row
from windlass.store.sqlite.schema import Statements, _files

SHAPES = {
    "row": tuple(field.name for field in fields(Row)),
    "seen": Seen._fields,
}
"""By fragment."""
WHOLE = {
    ("parents", "load"): tuple(field.name for field in fields(Parent)),
    ("lanes", "named"): tuple(field.name for field in fields(Lane) if field.init),
}
"""By module and statement."""


def read_by_position() -> Iterator[tuple[str, str, tuple[str, ...]]]:
    """Module, statement, and the shape that its rows have."""
    for module, path in _files().items():
        for name, body in re.findall(r"^-- :(\w+).*\n([^;]*);", path.read_text("utf-8"), re.MULTILINE):
            for fragment, shape in SHAPES.items():
                if f"SELECT {{{fragment}}}" in body:
                    yield module, name, shape
    for (module, name), shape in WHOLE.items():
        yield module, name, shape


ALL = list(read_by_position())


@pytest.mark.parametrize(("module", "name", "shape"), ALL, ids=[f"{each[0]}-{each[1]}" for each in ALL])
async def test_a_row_has_the_columns_of_its_shape(
    tmp_path: Path, module: str, name: str, shape: tuple[str, ...]
) -> None:
    async with opened(tmp_path / "w.db"):
        connection = apsw.Connection(str(tmp_path / "w.db"))
    found = apsw.ext.query_info(connection, Statements(module)[name])
    assert tuple(column for column, _ in found.description) == shape
