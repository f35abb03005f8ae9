"""`python -m bench engine chunks`: what it imports, how its figures are worked out, and once all of it."""

import json
import os
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import bench
from bench.engine.chunks.dump import dumps, write
from bench.engine.chunks.jobs import BATCH, Turns, load, load_in_thread, load_in_turns
from bench.engine.chunks.plain import PARSERS, loop, loop_elsewhere
from bench.engine.chunks.plan import MIB, ChunkPlan, make_chunk_plan
from bench.engine.chunks.report import Measured, Pass, report
from bench.engine.figures import Where
from bench.meters import peak_memory
from windlass import NDJSON, Part
from windlass.worker.reports.memory import used_memory

IMPORTS = {"one", "two"}
SCENARIOS = {"plain", *IMPORTS}
WHERE = Where(store="sqlite", place="here", versions={}, settings={}, seconds=1.0)


def test_a_dump_has_whole_records_of_the_size_of_real_ones(tmp_path: Path) -> None:
    dump = write(tmp_path / "dump", MIB)
    lines = dump.path.read_bytes().splitlines(keepends=True)
    assert dump.size == dump.path.stat().st_size
    assert MIB - 1000 < dump.size <= MIB
    assert dump.records == len(lines) == len({*lines})
    assert all(line.endswith(b"\n") for line in lines)
    records = [json.loads(line) for line in lines]
    assert [record["id"] for record in records] == list(range(dump.records))
    assert 500 < dump.size / dump.records < 700
    assert any(not line.isascii() for line in lines)


def test_dumps_are_gone_after_the_run() -> None:
    with dumps(10_000, 5_000) as (one, other):
        assert one.size > other.size > 0
    assert not one.path.parent.exists()


def test_the_file_has_sixteen_parts_and_the_one_to_warm_up_with_has_one(tmp_path: Path) -> None:
    assert ChunkPlan().chunk == 64 * MIB
    plan = make_chunk_plan(size=MIB)
    split = NDJSON(plan.chunk)
    for size, parts in ((plan.size, 16), (plan.warm_up, 1)):
        dump = write(tmp_path / "dump", size)
        assert len(list(split.plan({"path": str(dump.path)}))) == parts


async def test_the_plain_loop_parses_every_line(tmp_path: Path) -> None:
    dump = write(tmp_path / "dump", 100_000)
    for decode in PARSERS.values():
        assert loop(str(dump.path), decode).records == dump.records
    found = await loop_elsewhere(dump.path, "msgspec")
    assert found.records == dump.records
    assert found.seconds > 0


async def test_checkpoints_are_written_in_turns_and_at_the_end() -> None:
    records = list(range(4 * BATCH + 1))
    part = Part.for_test(records=records)
    await load(part, "file")
    assert [data["n"] for data, *_ in part.written] == [BATCH, 2 * BATCH, 3 * BATCH, 4 * BATCH, len(records)]
    turns = Part.for_test(records=records, parent=3)
    await load_in_turns(turns, "file")
    assert turns.written == [part.written[0], part.written[2], part.written[4], part.written[4]]


def test_a_block_is_compared_with_its_neighbours(monkeypatch: pytest.MonkeyPatch) -> None:
    turns = Turns(2)
    clock = 0.0
    monkeypatch.setattr("bench.engine.chunks.jobs.time.perf_counter", lambda: clock)
    saved = []
    for block in (9.0, 1.0, 1.2, 1.0, 3.0, 3.0):  # the machine slows down half-way
        for _ in range(2):
            saved.append(turns.saves)
            clock += block / 2
            turns.count()
    assert saved == [True, True, False, False] * 3
    assert turns.overheads() == pytest.approx([20, 50])


def test_a_plain_function_makes_the_same_checkpoints() -> None:
    part = Part.for_test(records=list(range(BATCH + 1)))
    load_in_thread(part, "file")
    assert [data["n"] for data, *_ in part.written] == [BATCH, BATCH + 1]


def test_peak_memory_is_in_bytes() -> None:
    used = used_memory()
    assert peak_memory(os.getpid()) > 0.8 * used > 10 * MIB  # the system's two books are not kept in step


def measured() -> Measured:
    """Two rounds over 100 MiB, the second on a machine that gets slower."""
    found = Measured(100 * MIB)
    for loops, ones in (((1.0, 1.0, 1.0), (1.25, 1.0)), ((1.0, 2.0, 2.0), (1.5, 4.0))):
        passes, beside = [Pass(each, 1.5) for each in ones], [Pass(each, 0.9) for each in loops]
        found.note("one", passes, [40e6])
        found.note("plain", beside)
        found.compare("one", passes, beside)
        found.note("two", [Pass(0.5, 1.8)], [45e6, 151e6])
        found.compare("two", [Pass(0.5, 1.8)], beside)
        found.overheads += [10, 2]
        found.rounds += 1
    return found


def test_an_import_is_compared_with_the_loops_beside_it() -> None:
    found = measured()
    assert found.rates()["plain"].rounds == [100, 60]
    assert found.rates()["plain"].unit == "MiB/s"
    ratios = found.ratios()
    assert ratios["one_vs_plain"].rounds == [0.8, 1, 1, 0.5]
    assert ratios["two_vs_plain"].rounds == [2, 3]
    assert set(ratios) == {"one_vs_plain", "two_vs_plain"}
    assert found.overhead()["checkpoint_overhead"].median == 6


def test_memory_and_cpu_are_told_per_process_and_per_gib() -> None:
    found = measured()
    assert found.memory()["memory_two"].high == 151
    assert found.cpu()["cpu_plain"].median == pytest.approx(0.9 * 10.24, rel=1e-3)
    assert found.cpu()["cpu_one"].median == pytest.approx(1.5 * 10.24, rel=1e-3)


def test_every_aim_is_judged() -> None:
    found = report(measured(), ChunkPlan(rounds=3), WHERE)
    assert [(aim.figure, aim.met) for aim in found.aims] == [
        ("one_vs_plain", True),
        ("two_vs_plain", True),
        ("checkpoint_overhead_percent", False),
        ("memory_per_process_mb", False),
    ]
    assert "2 of 3 rounds" in found.notes[0]


@pytest.mark.parametrize("size", ["9", "much"])
def test_a_size_that_makes_no_sense_is_refused(size: str) -> None:
    result = CliRunner().invoke(bench, ["engine", "chunks", "--size", size])
    assert result.exit_code == 2
    assert "MiB" in result.output


@pytest.mark.slow
def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    arguments = ["engine", "chunks", "--json", "--quick", "--size", "4MiB", "--store", "sqlite"]
    result = CliRunner().invoke(bench, arguments, catch_exceptions=False)
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["plan"]["records"] > 5000
    assert found["plan"]["part_bytes"] == MIB // 4
    [store] = found["stores"]
    assert set(store["rates"]) == SCENARIOS
    for name in SCENARIOS:
        assert store["rates"][name]["median"] > 0
        assert store["others"][f"cpu_{name}"]["median"] >= 0
    for name in IMPORTS:
        assert 10 < store["others"][f"memory_{name}"]["median"] < 150
    assert set(store["ratios"]) == {f"{name}_vs_plain" for name in IMPORTS}
    assert len(store["others"]["checkpoint_overhead"]["rounds"]) >= 1
    assert len(store["aims"]) == 4
    assert list(tmp_path.iterdir()) == []
