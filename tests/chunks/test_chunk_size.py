"""The size of parts as operators set it [P13]: in the splitter's unit, and from the next split on."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.chunks.reading import parts
from windlass import NDJSON, Items, Part, Ranges, Shards, State, Windlass, planner
from windlass.chunks.splitter import Resizable, Splitter
from windlass.chunks.task import MAX_PARTS


def set_task(app: Windlass, name: str, changes: Mapping[str, Any]) -> None:
    app._store_handle().call(lambda store: store.set_task(name, changes))


def total(app: Windlass, id: int) -> int:
    return app.parent(id).record().total


@pytest.fixture
def dump(tmp_path: Path) -> Path:
    """Ten lines of ten bytes."""
    path = tmp_path / "dump.ndjson"
    path.write_bytes(b'{"a": 12}\n' * 10)
    return path


@pytest.mark.parametrize("style", ["async", "plain"])
def test_p13_a_changed_size_holds_from_the_next_split_on(any_app: Windlass, style: str) -> None:
    seen: list[int] = []

    if style == "async":

        @any_app.chunked(name="load", split=Ranges(100, size=50))
        async def load(part: Part) -> None:
            async for batch in part.batches():
                seen.extend(batch.records)
                await batch.done()
    else:

        @any_app.chunked(name="load", split=Ranges(100, size=50))
        def load(part: Part) -> None:
            for batch in part.batches():
                seen.extend(batch.records)
                batch.done()

    first = load.enqueue()
    any_app.run_until_idle()
    set_task(any_app, "load", {"chunk": 10})
    second = load.enqueue()
    any_app.run_until_idle()
    set_task(any_app, "load", {"chunk": None})
    third = load.enqueue()
    any_app.run_until_idle()
    assert [total(any_app, job.id) for job in (first, second, third)] == [2, 10, 2]
    assert sorted(seen) == sorted([*range(100)] * 3)


async def test_p13_a_parent_that_is_split_keeps_its_parts(any_app: Windlass) -> None:
    """The first part changes the size. The others stay as planned; the next split of this worker has the new
    size."""
    jobs: list[Any] = []

    @any_app.chunked(split=Items([*range(12)], size=4), parallel=1, name="load")
    async def load(part: Part) -> None:
        if not jobs:
            await any_app._store_handle().acall(lambda store: store.set_task("load", {"chunk": 1}))
            jobs.append(await load.aenqueue())

    job = await load.aenqueue()
    async with any_app:
        await any_app.arun_until_idle()
        spans = [part.span for part in await any_app.parent(job.id).aparts()]
        assert spans == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11]]
        assert (await any_app.parent(jobs[0].id).arecord()).total == 12


@pytest.mark.parametrize(
    ("splitter", "size", "expected"),
    [
        (NDJSON("1MiB", source="path"), 30, 4),
        (NDJSON("1MiB", source="path"), 50, 1),  # a file of two chunks is one part [P1]
        (Ranges(100), 30, 4),
        (Shards(64), 10, 7),
        (Items([1, 2, 3, 4, 5]), 2, 3),
    ],
    ids=["NDJSON", "NDJSON-small", "Ranges", "Shards", "Items"],
)
def test_p13_the_size_is_in_the_unit_of_the_splitter(
    dump: Path, splitter: Splitter, size: int, expected: int
) -> None:
    assert isinstance(splitter, Resizable)
    before = parts(splitter, {"path": str(dump)})
    assert len(parts(splitter.resized(size), {"path": str(dump)})) == expected
    assert parts(splitter, {"path": str(dump)}) == before


def test_p13_a_splitter_without_a_size_says_so(app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    @planner
    def months() -> list[int]:
        return [1, 2, 3]

    @app.chunked(split=months, name="report")
    async def report(part: Part) -> None: ...

    set_task(app, "report", {"chunk": 2})
    job = report.enqueue()
    app.run_until_idle()
    assert (job.status(), total(app, job.id)) == (State.SUCCEEDED, 3)
    assert "the setting chunk=2 of this task is ignored" in caplog.text
    assert "windlass task set report --chunk default" in caplog.text


def test_p13_far_too_small_a_size_is_refused_without_making_the_parts(app: Windlass, tmp_path: Path) -> None:
    """As one would write 128 for 128MiB."""
    path = tmp_path / "large.ndjson"
    with path.open("wb") as file:
        file.truncate(2**50)

    @app.chunked(split=NDJSON(), name="load")
    async def load(part: Part, path: str) -> None: ...

    set_task(app, "load", {"chunk": 128})
    job = load.enqueue(str(path))
    app.run_until_idle()
    record = job.record()
    assert record.state is State.DEAD
    assert f"more than {MAX_PARTS:,} parts" in record.errors[-1].message
    assert "windlass task set load --chunk" in record.errors[-1].message
