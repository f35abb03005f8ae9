"""docs/guides/sets.md: its table and its first example run as printed; the second one at least compiles."""

import re
from pathlib import Path
from typing import Any

import apsw
import pytest

from windlass import Windlass
from windlass.sets import RowSet

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "sets.md").read_text(encoding="utf-8")


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL)


async def test_p6_the_guide_keeps_its_table_equal_to_its_source(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (table,) = blocks("sql")
    example, chunked, _ = blocks("python")
    compile(chunked, "docs/guides/sets.md", "exec")
    file = tmp_path / "jobs.db"
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{file}")
    names: dict[str, Any] = {}
    # Nothing but what the reader is told to write.
    exec(compile(example, "docs/guides/sets.md", "exec", dont_inherit=True), names)  # noqa: S102
    app: Windlass = names["app"]
    with apsw.Connection(str(file)) as connection:
        connection.execute(table)

    async with app:
        await names["refresh"].aenqueue("shop", {"get": "fetch one", "drop": "remove"})
        assert (await app.arun_until_idle()).succeeded == 1
        second = await names["refresh"].aenqueue("shop", {"get": "fetch one", "put": "store"})
        assert (await app.arun_until_idle()).succeeded == 1
        assert await second.aresult(5) == 1
    with apsw.Connection(str(file)) as connection:
        found = list(connection.execute("SELECT catalog, operation, text, embedding FROM vector ORDER BY 2"))
        assert found == [("shop", "get", "fetch one", "[9.0,0.5]"), ("shop", "put", "store", "[5.0,0.5]")]


def test_the_guide_tells_the_columns_that_a_set_needs() -> None:
    (table,) = blocks("sql")
    found = [" ".join(line.strip().rstrip(",").split()) for line in table.splitlines()]
    for column in RowSet("vector", key="operation", columns=("text",)).ddl():
        assert column.replace('"', "") in found
