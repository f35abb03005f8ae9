"""Every figure of the benchmark that README and the docs show is of the run that they link."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from bench.peers.findings import OURS, aims, value
from bench.peers.page import text

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", ROOT / "bench" / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TABLE = {
    "workflows of 3 steps a second": ("durable_steps", "rate"),
    "steps a second, in workflows of 100": ("durable_long_steps", "steps_rate"),
    "bytes of the database for a step": ("durable_long_steps", "bytes"),
    "WAL bytes for a step": ("durable_long_steps", "wal_bytes"),
    "processor time of a step, all processes, µs": ("durable_long_steps", "cpu_us"),
    "from a signal to the workflow's next line, median, ms": ("durable_signals", "p50_ms"),
    "the same, 99th percentile, ms": ("durable_signals", "p99_ms"),
}
"""The table of docs/explanation/workflows.md; its columns are these peers."""
COLUMNS = (OURS, "absurd", "dbos")


def linked() -> set[Path]:
    """Return the folders of runs that any page but a decision links."""
    folders = set()
    for page in PAGES:
        if page.parent.name != "adr":
            for target in re.findall(r"\]\(\s*([^)#\s]*results/[^)#\s]+)", page.read_text("utf-8")):
                folders.add((page.parent / target).resolve().parent)
    return folders


def found() -> dict[str, Any]:
    (folder,) = linked()
    results: dict[str, Any] = json.loads((folder / "results.json").read_text("utf-8"))
    return results


def test_one_run_is_linked_and_its_picture_shown() -> None:
    (folder,) = linked()
    assert folder.parent == ROOT / "bench" / "results"
    shown = (ROOT / "docs" / "images" / "benchmark.png").read_bytes()
    assert shown == (folder / "overview.png").read_bytes()


def test_the_page_of_the_linked_run_is_made_from_its_results() -> None:
    """`python -m bench page FOLDER` draws it again where the page says less than it would today."""
    (folder,) = linked()
    pictures = {path.name for path in folder.glob("*.png")}
    assert (folder / "README.md").read_text("utf-8") == text(found(), pictures)


def test_the_table_of_workflows_is_of_the_linked_run() -> None:
    results = found()
    rows = re.findall(
        r"^\| (.+?) \| ([\d.,]+) \| ([\d.,]+) \| ([\d.,]+) \|$",
        (ROOT / "docs" / "explanation" / "workflows.md").read_text("utf-8"),
        re.M,
    )
    shown = {row[0]: [float(cell.replace(",", "")) for cell in row[1:]] for row in rows if row[0] in TABLE}
    assert shown.keys() == TABLE.keys()
    for title, (scenario, key) in TABLE.items():
        measured = [value(results, scenario, key, peer) for peer in COLUMNS]
        assert shown[title] == pytest.approx(measured, rel=0.02), title


def test_what_readme_multiplies_is_an_aim_of_the_linked_run() -> None:
    known = {aim.value for aim in aims(found())}
    claims = re.findall(r"\b(\d[\d.,]*) (?:×|times as)", (ROOT / "README.md").read_text("utf-8"))
    assert {f"{claim} ×" for claim in claims} <= known
