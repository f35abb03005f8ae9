"""Every setting and every command is in the guide, and what the guide and README.md name is there."""

import re
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.cli.test_commands import ALL
from windlass.settings import OTHERS, PREFIX, Settings
from windlass.store.settings import StoreSettings

ROOT = Path(__file__).resolve().parent.parent
GUIDE = (ROOT / "docs" / "workers.md").read_text(encoding="utf-8")
CHUNKS = (ROOT / "docs" / "chunks.md").read_text(encoding="utf-8")
PAGES = ("flow.md", "schedules.md", "mission-control.md")
FLOW = "".join((ROOT / "docs" / name).read_text(encoding="utf-8") for name in PAGES)
README = (ROOT / "README.md").read_text(encoding="utf-8")
WITHOUT_A_VARIABLE = {"routes"}
"""Settings that no single line of text could hold."""


def row(setting: str) -> str:
    rows = [line for line in GUIDE.splitlines() if re.match(rf"\|[^|]*`{setting}`", line)]
    assert len(rows) == 1, f"docs/workers.md tells nothing of the setting {setting}"
    return rows[0]


@pytest.mark.parametrize("setting", Settings.__struct_fields__)
def test_every_setting_is_in_the_guide(setting: str) -> None:
    assert (f"`{PREFIX}{setting.upper()}`" in row(setting)) == (setting not in WITHOUT_A_VARIABLE)


def test_the_guide_names_no_variable_that_nobody_reads() -> None:
    known = {PREFIX + name.upper() for name in (*Settings.__struct_fields__, *OTHERS)}
    for text in (GUIDE, CHUNKS, FLOW, README):
        assert set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", text)) <= known


def test_the_guide_tells_the_defaults() -> None:
    spans = {"lease": 30, "sweep": 15, "shutdown": 30, "grace": 5}
    for setting, seconds in spans.items():
        assert getattr(Settings(), setting) == seconds
        assert f"| {seconds}s |" in row(setting)
    assert (Settings().ageing_step, StoreSettings().idempotency_retention) == (60, 86400)
    assert "| 1m |" in row("ageing_step")
    assert "| 1d |" in row("idempotency_retention")
    assert f"| {Settings().poison} |" in row("poison")
    assert f"| {Settings().processes} |" in row("processes")


@pytest.mark.parametrize("command", ALL)
def test_every_command_is_told_of(command: str) -> None:
    assert re.search(rf"windlass {command}\b", GUIDE + CHUNKS + FLOW + README)


def test_every_command_that_is_told_of_is_there() -> None:
    """In code and in fenced blocks; a group may stand for its commands."""
    groups = {name.split()[0] for name in ALL}
    told = GUIDE + CHUNKS + FLOW + README
    for words in re.findall(r"^(?:`|)windlass ([a-z]+)|`windlass ([a-z]+)", told, re.MULTILINE):
        assert "".join(words) in groups


def test_readme_calls_its_task_by_one_name() -> None:
    (name,) = re.findall(r'@app\.task\(name="([^"]+)"', README)
    used = re.findall(r"""(?:enqueue|named)\(['"]([a-z._]+)['"]""", README)
    assert len(used) >= 2
    assert set(used) == {name}


@pytest.mark.parametrize("page", PAGES)
def test_the_code_of_a_page_runs(page: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its blocks, one after another, on a store in memory; calls are made, handlers only defined."""
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "memory://")
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    blocks = re.findall(r"^```python\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    assert blocks
    scope: dict[str, object] = {"__name__": "page"}
    monkeypatch.setitem(sys.modules, "page", ModuleType("page"))
    for block in blocks:
        exec(compile(block, page, "exec"), scope)  # noqa: S102 - it is our own text
