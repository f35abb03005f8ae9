"""The one run that README and docs link: its picture, and its figures in the table of workflows.md."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from bench.peers.findings import OURS, shown, value
from bench.peers.plan import SMOKE
from bench.servers import ROOT

LINK: Final = re.compile(r"(\]\(\s*[^)#\s]*results/)([^)#\s/]+)")
PICTURE: Final = Path("docs", "images", "benchmark.png")
WORKFLOWS: Final = Path("docs", "explanation", "workflows.md")
COLUMNS: Final = (OURS, "absurd", "dbos")
"""The peers of the table of workflows.md, in order."""

ROWS: Final = {
    "workflows of 3 steps a second": ("durable_steps", "rate"),
    "steps a second, in workflows of 100": ("durable_long_steps", "steps_rate"),
    "bytes of the database for a step": ("durable_long_steps", "bytes"),
    "WAL bytes for a step": ("durable_long_steps", "wal_bytes"),
    "processor time of a step, all processes, µs": ("durable_long_steps", "cpu_us"),
    "from a signal to the workflow's next line, median, ms": ("durable_signals", "p50_ms"),
    "the same, 99th percentile, ms": ("durable_signals", "p99_ms"),
}


class NotWhole(Exception):
    """A run lacks what the documentation shows. The message says what."""


def pages(root: Path = ROOT) -> Iterator[Path]:
    """Find every page that may link a run; a decision links the one that it was made by."""
    yield from (root / "README.md", root / "bench" / "README.md")
    yield from (page for page in sorted((root / "docs").rglob("*.md")) if page.parent.name != "adr")


def linked(root: Path = ROOT) -> set[str]:
    """Return the names of the runs that are linked."""
    return {name for page in pages(root) for _, name in LINK.findall(page.read_text("utf-8"))}


def rows(found: dict[str, Any]) -> Iterator[str]:
    """Write the lines of the table of workflows.md."""
    for title, (scenario, key) in ROWS.items():
        figures = [value(found, scenario, key, peer) for peer in COLUMNS]
        if missing := [peer for peer, each in zip(COLUMNS, figures, strict=True) if each is None]:
            raise NotWhole(f"{scenario} was not measured of {', '.join(missing)}")
        yield f"| {title} | {' | '.join(shown(each) for each in figures if each is not None)} |"


def link(folder: Path, root: Path = ROOT) -> list[Path]:
    """Link a run of bench/results everywhere, show its picture and its figures. Return what changed."""
    found = json.loads((folder / "results.json").read_text("utf-8"))
    if found["plan"]["name"] == SMOKE.name:
        raise NotWhole("a smoke run measures nothing")
    if folder.resolve().parent != root / "bench" / "results":
        raise NotWhole(f"{folder} is not in bench/results")
    if not (folder / "overview.png").exists():
        raise NotWhole("a figure of the overview was not measured, so there is no overview.png")
    table = list(rows(found))
    shutil.copyfile(folder / "overview.png", root / PICTURE)
    changed = [root / PICTURE]
    for page in pages(root):
        was = page.read_text("utf-8")
        text = LINK.sub(rf"\g<1>{folder.resolve().name}", was)
        if page == root / WORKFLOWS:
            for title, row in zip(ROWS, table, strict=True):
                text = re.sub(rf"^\| {re.escape(title)} \|.*$", row, text, flags=re.M)
        if text != was:
            page.write_text(text, "utf-8")
            changed.append(page)
    return changed
