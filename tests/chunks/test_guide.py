"""docs/guides/chunked-jobs.md: its examples run as they are printed, on a real file and a SQLite store."""

import re
from pathlib import Path
from typing import Any

import msgspec
import pytest

from windlass import Part, State, Windlass

GUIDE = (Path(__file__).resolve().parents[2] / "docs" / "guides" / "chunked-jobs.md").read_text(
    encoding="utf-8"
)
BLOCKS = re.findall(r"^```python\n(.*?)^```", GUIDE, flags=re.MULTILINE | re.DOTALL)


def test_the_examples_of_the_guide_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, exactly, _reshard, after, gaps = BLOCKS
    dump = tmp_path / "dump.ndjson"
    dump.write_bytes(b"".join(msgspec.json.encode({"id": number}) + b"\n" for number in range(2500)))
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/jobs.db")
    indexed: list[Any] = []

    async def index(records: list[Any]) -> None:
        indexed.extend(records)

    names: dict[str, Any] = {"index": index, "__name__": "shop"}
    exec(first.replace("/data/dump.ndjson", str(dump)), names)  # noqa: S102
    app: Windlass = names["app"]

    @app.task
    async def summarise(month: str) -> str:
        return month

    @app.task
    async def embed(product: int) -> None: ...

    class Catalog:
        @staticmethod
        def without_vector() -> list[int]:
            return [1, 2]

    names |= {"summarise": summarise, "embed": embed, "catalog": Catalog}
    compile(exactly, "docs/guides/chunked-jobs.md", "exec")
    exec(after, names)  # noqa: S102
    exec(gaps, names)  # noqa: S102
    with app:
        app.run_until_idle(wait=10)
        assert names["job"].result(timeout=1) == f"{dump} is in"
        assert names["report"].status() is State.SUCCEEDED
        assert len(indexed) == 2500
        assert embed.reconcile().enqueued == 2


class Rows:
    """A table of three shards. Reading it notes what was asked for; writing fails once, in mid-shard."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int]] = []
        self.copied: list[int] = []
        self.breaks = True

    async def rows(self, shard: int, after: int, limit: int) -> list[dict[str, int]]:
        self.asked.append((shard, after))
        ids = range(1 + shard * 10_000, 1201 + shard * 10_000)
        return [{"id": id} for id in ids if id > after][:limit] if shard < 3 else []

    async def upsert(self, rows: list[dict[str, int]]) -> None:
        if self.breaks and rows[0]["id"] == 10_501:
            self.breaks = False
            raise ConnectionError("the new store is away")
        self.copied += [row["id"] for row in rows]


def test_p5_resharding_goes_on_inside_a_shard(any_app: Windlass) -> None:
    """The recipe as it is printed, but for a retry at once: what was saved before the failure is not read
    again, and each row is copied once."""
    (recipe,) = (block for block in BLOCKS if "Shards(" in block)
    table = Rows()
    names: dict[str, Any] = {"app": any_app, "Part": Part, "old": table, "new": table, "__name__": "shop"}
    recipe = recipe.replace("Shards(1024, per_part=32)", "Shards(4, per_part=4), retry=Retry(2, base=0)")
    exec(recipe.replace("@app", "from windlass import Retry\n@app", 1), names)  # noqa: S102
    job = names["reshard"].enqueue()
    any_app.run_until_idle(wait=10)
    assert job.status() is State.SUCCEEDED
    assert table.copied == [id + shard * 10_000 for shard in range(3) for id in range(1, 1201)]
    assert table.asked.count((1, 10_500)) == 2  # the page that failed, and the same one again
    assert len(table.asked) == len(set(table.asked)) + 1
    parent = any_app.parent(job.id).record()
    assert (parent.done, parent.size, parent.records) == (4, 4, 3600)
