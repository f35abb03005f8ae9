"""How tables fit the terminal they are drawn on, and what NO_COLOR does."""

import fcntl
import os
import pty
import re
import struct
import subprocess
import sys
import termios
from collections.abc import Sequence

import pytest
from rich.cells import cell_len
from rich.console import Console

from tests.cli.kit import Desk
from tests.cli.test_top import drain
from tests.conformance.kit import Rig, failure
from windlass.cli import VERBS, budgets, dead, events, flow, jobs, queues, schedules, tasks, top
from windlass.cli.output import Column, Listing, make_table
from windlass.cli.parents import page as parent_page
from windlass.core.states import Kind
from windlass.store.records import NewSchedule, Outcome, WorkerInfo

LONG = "a_name.as_long_as_a_store_allows_for_every_name_that_people_give"
TABLES = {
    "budgets": budgets.COLUMNS,
    "dead causes": dead._COLUMNS,
    "events": events._COLUMNS,
    "gates": flow.GATES,
    "watermarks": flow._MARKS,
    "jobs": jobs._COLUMNS,
    "parents": parent_page.COLUMNS,
    "parent show": parent_page.PARTS,
    "queues": queues.LISTED,
    "schedules": schedules._COLUMNS,
    "tasks": tasks._COLUMNS,
    "reconcile": tasks._COUNTS,
    "top, queues": top._QUEUES,
    "top, workers": top._WORKERS,
    "workers": top._LISTED,
}


def drawn(columns: Sequence[str], rows: Sequence[Sequence[object]], width: int) -> list[str]:
    console = Console(width=width, force_terminal=False, color_system=None, markup=False, emoji=False)
    with console.capture() as captured:
        console.print(make_table(columns, rows))
    return captured.get().splitlines()


@pytest.mark.parametrize("columns", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("width", [80, 100, 200])
def test_every_table_fits_with_the_longest_names(columns: Sequence[str], width: int) -> None:
    """Numbers as large as they get, ids of 19 digits, and text that is long wherever there is text."""
    read = [Column.read(column) for column in columns]
    row = ["9223372036854775807" if each.whole else "1,234,567" if each.right else LONG for each in read]
    lines = drawn(columns, [row, ["" for _ in columns]], width)
    assert max(map(cell_len, lines)) <= width
    (gone,) = [line for line in lines if line.startswith("not shown: ")] or [""]
    for each in read:
        words = lines[0] if each.name not in gone else gone
        assert each.name in words, f"{each.name} is cut in two, or missing"
        assert each.spare or each.name in lines[0], f"{each.name} must not go"
    assert read[0].name in lines[0]
    for each in read:  # what people copy is in one piece
        assert not each.whole or any("9223372036854775807" in line for line in lines)


def test_a_table_with_room_shows_everything_on_one_line_a_row() -> None:
    lines = drawn(TABLES["jobs"], [["1", LONG, LONG, "normal", "ready", "1/5", "2 s", LONG]], 1000)
    assert len(lines) == 3
    assert lines[0].split() == ["id", "task", "queue", "priority", "state", "attempt", "age", "reason"]
    assert lines[2].count(LONG) == 3


def test_columns_that_say_nothing_go_first() -> None:
    columns = ("name", "??>most", "?>zero", "text")
    lines = drawn(columns, [["n" * 10, "7", "0", "t" * 10], ["n", "8", "–", "t"]], 30)
    assert lines[0].split() == ["name", "most", "text"]
    assert "not shown: zero;" in " ".join(lines)
    narrower = drawn(columns, [["n" * 10, "7", "0", "t" * 10]], 23)
    assert narrower[0].split() == ["name", "text"]


def test_a_column_goes_before_names_are_folded_short() -> None:
    row = ["1" * 14, "mail.send.letters", "mail", "normal", "ready", "1/5", "20 min 15 s", "r" * 90]
    lines = drawn(TABLES["jobs"], [row], 80)
    assert lines[0].split() == ["id", "task", "queue", "state", "attempt", "reason"]
    assert "mail.send.letters  mail   ready" in lines[2]


def test_a_terminal_narrower_than_the_names_gets_all_of_the_text() -> None:
    lines = drawn(("name", "text"), [[LONG, "1234567"]], 9)
    assert max(map(cell_len, lines)) <= 9
    assert LONG in "".join(line[:4].strip() for line in lines)


def test_hostile_text_does_not_widen_a_table() -> None:
    lines = drawn(("name", "text"), [["\x1b[31m", "字" * 100]], 80)
    assert max(map(cell_len, lines)) <= 80
    assert "\x1b" not in "".join(lines)


# -- the commands ---------------------------------------------------------------------------------------

READING = [
    ["queues"], ["queue", "show", LONG], ["jobs"], ["workers"], ["top", "--once"], ["schedules", "list"],
    ["budgets"], ["dead", "list"], ["dead", "causes"], ["parents"], ["events"], ["gates"],
    ["tasks"], ["waits"], ["watermarks", LONG], ["doctor"],
]  # fmt: skip


@pytest.fixture
def busy(desk: Desk) -> Desk:
    """A store with something of everything, all of it with long names."""

    async def fill(rig: Rig) -> None:
        info = WorkerInfo(id=7, label=LONG, host=LONG, pid=4_194_304, queues=(LONG, "other"))
        await rig.store.register(info)
        await rig.add(LONG, queue=LONG, max_attempts=1, ordering_key=LONG, tags=("t",))
        (job,) = await rig.claim(7, LONG)
        dead = Outcome(job=job, kind=Kind.DEAD, error=failure("that went wrong " * 12))
        await rig.store.finish(7, 1, [dead])
        await rig.add(LONG, LONG, queue=LONG, concurrency_key=LONG, key_limit=1)
        await rig.store.set_queue(LONG, {"paused": True, "max_workers": 3})
        await rig.store.set_budget(LONG, {"rate": 1.5, "breaker": 3})
        await rig.store.set_task(LONG, {"concurrency": 5})
        schedule = NewSchedule(name=LONG, cron="*/5 3-23/2 1,15 * MON-FRI", task=LONG, tz="Europe/Paris")
        await rig.store.seed_schedule(schedule, 4_000_000_000)

    desk.visit(fill)
    desk.ok("enqueue", LONG)
    return desk


@pytest.mark.parametrize("verb", READING, ids=" ".join)
def test_every_reading_verb_fits_80_columns(busy: Desk, verb: list[str]) -> None:
    result = busy.run(*verb, COLUMNS="80")
    assert result.exit_code in (0, 1), result.output
    assert not result.exception or isinstance(result.exception, SystemExit)
    lines = result.stdout.splitlines()
    assert lines
    assert max(map(cell_len, lines)) <= 80, result.stdout


def test_a_page_of_a_job_fits_80_columns(busy: Desk) -> None:
    for job in busy.json("jobs")["jobs"]:
        lines = busy.run("job", "show", job["id"], COLUMNS="80").stdout.splitlines()
        assert max(map(cell_len, lines)) <= 80


def test_every_verb_that_lists_is_tried() -> None:
    tried = {verb[0] for verb in READING}
    assert {name for name in VERBS if name.endswith("s")} <= tried


def test_times_have_their_zone(busy: Desk) -> None:
    stamp = r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d (UTC|[A-Z]{2,5}|[+-]\d\d(\d\d)?) \("
    id = busy.json("jobs")["jobs"][0]["id"]
    for verb in (["schedules", "list"], ["dead", "causes"], ["job", "show", id]):
        assert re.search(stamp, busy.ok(*verb)), verb


# -- terminals ------------------------------------------------------------------------------------------


def on_a_terminal(desk: Desk, *verb: str, **environ: str) -> str:
    """What a command writes to a terminal of 80 columns."""
    mine, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    outside = ("NO_COLOR", "FORCE_COLOR", "COLUMNS", "LINES", "TERM")
    around = {name: value for name, value in os.environ.items() if name not in outside}
    command = [sys.executable, "-m", "windlass", *verb, "--database", desk.url]
    environ = {**around, "TERM": "xterm-256color", **environ}
    with subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs, env=environ) as running:
        os.close(theirs)
        said = drain(mine)
        os.close(mine)
        assert running.wait(60) in (0, 1)
    return said.decode()


@pytest.mark.parametrize("verb", [["jobs"], ["queues"], ["doctor"], ["top", "--once"]], ids=" ".join)
def test_no_color_means_no_codes_at_all(busy: Desk, verb: list[str]) -> None:
    plain = on_a_terminal(busy, *verb, NO_COLOR="1")
    assert "\x1b" not in plain
    assert max(map(cell_len, plain.splitlines())) <= 80
    assert "\x1b[" in on_a_terminal(busy, *verb)
    assert "\x1b[" in on_a_terminal(busy, *verb, NO_COLOR="")  # empty is as good as not there


def test_into_a_pipe_nothing_is_wrapped(busy: Desk) -> None:
    lines = busy.ok("jobs").splitlines()
    assert len(lines) == 2 + len(busy.json("jobs")["jobs"])
    assert "not shown" not in busy.run("jobs").output


def test_a_listing_is_what_it_was_made_of() -> None:
    assert Column.read("??>pid") == Column("pid", right=True, whole=False, spare=2)
    assert Column.read("!id") == Column("id", right=False, whole=True, spare=0)
    assert Listing(("a",), [])._natural == [1]
