"""`python -m bench engine growth`: the sizes of a run, and once a small one."""

import json
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from bench.__main__ import bench as command
from bench.engine.growth.plan import make_growth_plan, sizes
from bench.engine.growth.things import THINGS

TINY = ("--jobs", "60", "--queues", "40", "--schedules", "5", "--parts", "40", "--rounds", "1")


def test_sizes_grow_tenfold_up_to_the_last() -> None:
    assert sizes(1_000_000) == [0, 1_000, 10_000, 100_000, 1_000_000]
    assert sizes(5_000) == [0, 1_000, 5_000]
    assert sizes(7) == [0, 7]
    assert make_growth_plan(quick=True, queues=3).queues == 3


@pytest.mark.slow
def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every call of every thing has a time at each size; the files are gone afterwards."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = ["engine", "growth", "--quick", "--json", "--store", "sqlite", *TINY]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    [store] = json.loads(result.stdout)["stores"]
    assert {curve["thing"] for curve in store["curves"]} == {thing.name for thing in THINGS}
    for curve in store["curves"]:
        assert len(curve["ms"]) == 2, curve
        assert all(ms >= 0 for ms in curve["ms"].values()), curve
    assert list(tmp_path.iterdir()) == []


def test_one_thing_as_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    words = ["engine", "growth", "--quick", "--store", "sqlite", "--only", "schedules", *TINY]
    result = CliRunner().invoke(command, words)
    assert result.exit_code == 0, result.output
    assert "due" in result.stdout
    assert "parts" not in result.stdout
