"""Every figure of the benchmark that README and the docs show is of the run that they link."""

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from bench.peers import linked
from bench.peers.findings import aims
from bench.peers.page import text
from bench.peers.plan import SMOKE

ROOT = Path(__file__).resolve().parents[2]


def folder() -> Path:
    (name,) = linked.linked()
    return ROOT / "bench" / "results" / name


def found() -> dict[str, Any]:
    results: dict[str, Any] = json.loads((folder() / "results.json").read_text("utf-8"))
    return results


def test_one_run_is_linked_and_its_picture_shown() -> None:
    assert (ROOT / linked.PICTURE).read_bytes() == (folder() / "overview.png").read_bytes()


def test_the_page_of_the_linked_run_is_made_from_its_results() -> None:
    """`python -m bench page FOLDER` draws it again where the page says less than it would today."""
    pictures = {path.name for path in folder().glob("*.png")}
    assert (folder() / "README.md").read_text("utf-8") == text(found(), pictures)


def test_the_table_of_workflows_is_of_the_linked_run() -> None:
    lines = (ROOT / linked.WORKFLOWS).read_text("utf-8").splitlines()
    assert [line for line in lines if line.split(" |")[0].removeprefix("| ") in linked.ROWS] == list(
        linked.rows(found())
    )


def test_what_readme_multiplies_is_an_aim_of_the_linked_run() -> None:
    known = {aim.value for aim in aims(found())}
    claims = re.findall(r"\b(\d[\d.,]*) (?:×|times as)", (ROOT / "README.md").read_text("utf-8"))
    assert {f"{claim} ×" for claim in claims} <= known


def test_no_other_page_tells_rates_of_jobs() -> None:
    """A figure beside peers stands where its run is linked."""
    for page in linked.pages():
        if not linked.LINK.search(told := page.read_text("utf-8")):
            assert not re.findall(r"\d[\d,.]* (?:jobs/s|jobs a second)", told), page


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what links a run, and a second run of the same figures with a picture of its own."""
    for page in linked.pages():
        target = tmp_path / page.relative_to(ROOT)
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(page, target)
    (tmp_path / linked.PICTURE).parent.mkdir()
    other = tmp_path / "bench" / "results" / "2027-01-01-wide"
    other.mkdir(parents=True)
    (other / "overview.png").write_bytes(b"picture")
    results = found()
    for taken in results["scenarios"]["durable_signals"]["dbos"]:
        taken["p50_ms"] = 1234.5
    (other / "results.json").write_text(json.dumps(results), "utf-8")
    return tmp_path


def test_another_run_is_linked_by_one_command(checkout: Path) -> None:
    other = checkout / "bench" / "results" / "2027-01-01-wide"
    changed = linked.link(other, checkout)
    assert {each.name for each in changed} == {"benchmark.png", "README.md", "workflows.md"}
    assert linked.linked(checkout) == {"2027-01-01-wide"}
    assert (checkout / linked.PICTURE).read_bytes() == b"picture"
    assert "| 1,234 |" in (checkout / linked.WORKFLOWS).read_text("utf-8")
    linked.link(other, checkout)
    assert (checkout / linked.WORKFLOWS).read_text("utf-8").count("| 1,234 |") == 1


@pytest.mark.parametrize(
    ("lacking", "message"),
    [
        ({"plan": {"name": SMOKE.name}}, "measures nothing"),
        ({"scenarios": {}}, "durable_steps was not measured of windlass, absurd, dbos"),
    ],
)
def test_a_run_that_lacks_what_is_shown_is_not_linked(
    checkout: Path, lacking: dict[str, Any], message: str
) -> None:
    other = checkout / "bench" / "results" / "2027-01-01-wide"
    (other / "results.json").write_text(json.dumps({**found(), **lacking}), "utf-8")
    with pytest.raises(linked.NotWhole, match=message):
        linked.link(other, checkout)
    assert linked.linked(checkout) == linked.linked()
