"""The program of each page in docs/guides/teams: short, shown as it is, and run on each database."""

import re
from pathlib import Path

import pytest

from tests.docs.pages import ROOT, answers, blocks, outline
from tests.examples.running import run_example

TEAMS = ROOT / "docs" / "guides" / "teams"
PROGRAMS = {
    "imports": "import_dump",
    "embeddings": "embed_worker",
    "paced-queues": "paced_calls",
    "host-programs": "host_program",
    "exact-counts": "exact_counts",
}
MAX_LINES = 60


def said(name: str, database: dict[str, str]) -> dict[str, str]:
    """What a program prints, by the word that each line begins with."""
    return dict(line.split(maxsplit=1) for line in printed(name, database))


def printed(name: str, database: dict[str, str]) -> list[str]:
    """The lines that a program prints, which are those of its page, numbers aside."""
    lines = run_example(name, **database)
    page = next(page for page, program in PROGRAMS.items() if program == name)
    ((_, shown),) = (each for block in blocks(TEAMS / f"{page}.md", "console") for each in answers(block))
    assert [outline(line) for line in lines] == [outline(line) for line in shown]
    return lines


@pytest.mark.slow
def test_p5_m7_a_dump_is_imported_by_pods_that_come_and_go(database: dict[str, str]) -> None:
    lines = said("import_dump", database)
    assert lines["demand"] == "2 parts run and 12 could: 7 pods wanted"
    assert lines["killed"].endswith("result [9000, 900]")
    assert lines["imported"] == "9,900 of 9,900 lines"


@pytest.mark.slow
def test_p5_p11_batches_outlast_the_lease_and_none_that_was_done_is_repeated(
    database: dict[str, str],
) -> None:
    found = re.fullmatch(
        r"256 vectors; the model was asked (\d+) times, (\d+) of them again",
        said("embed_worker", database)["stored"],
    )
    assert found is not None
    asked, again = int(found[1]), int(found[2])
    assert asked == 8 + again
    assert again <= 2  # the batches that the killed process had begun


@pytest.mark.slow
def test_f1_f4_f6_calls_are_paced_and_ordered_and_producers_are_slowed(database: dict[str, str]) -> None:
    lines = said("paced_calls", database)
    calls, rate = (int(number) for number in re.findall(r"\d+", lines["calls"]))
    assert calls == 160
    assert rate <= 50  # 40 a second, the burst of ten at the start, and first calls that come late
    assert lines["order"] == "kept for 40 of 40 accounts"
    assert lines["watermark"] == "4 of 4 for all 40"
    assert lines["producer"] != "waited 0 times"


def test_k11_a_program_runs_its_jobs_and_manages_its_queues(database: dict[str, str]) -> None:
    lines = printed("host_program", database)
    assert lines[:2] == [
        "declared  mail: 2 at a time, depth 1000",
        "declared  reports: 1 at a time, depth any",
    ]
    assert lines[2:5] == [
        "meanwhile report of May; 50 mails wait",
        "emptied   50 mails sent",
        "healthy   True",
    ]
    assert lines[5].startswith("duties    {'due': 0")


@pytest.mark.slow
def test_e7_m7_logs_and_metrics_hold_every_receipt_once_after_two_kills(database: dict[str, str]) -> None:
    lines = said("exact_counts", database)
    assert lines["receipts"] == "2,000; the second one of payment 7 is 'repeated'"
    assert lines["logs"] == "{'succeeded': 1996, 'dead': 4}, 0 more than receipts"
    assert lines["metrics"] == "{'succeeded': 1996, 'dead': 4}"


@pytest.mark.parametrize(("page", "program"), PROGRAMS.items())
def test_a_program_is_short_and_its_page_shows_it_as_it_is(page: str, program: str) -> None:
    source = (ROOT / "examples" / f"{program}.py").read_text(encoding="utf-8")
    assert len(source.splitlines()) <= MAX_LINES
    found = blocks(TEAMS / f"{page}.md", "python")
    shown = [block for block in found if not block.text.startswith("from ")]  # hidden: what the rest needs
    assert shown
    for block in shown:
        assert block.text.strip() in source, f"{page}.md, line {block.line}: not as in {program}.py"


def test_every_page_of_a_team_has_its_program() -> None:
    assert {path.stem for path in Path(TEAMS).glob("*.md")} == set(PROGRAMS)
