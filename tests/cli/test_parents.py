"""windlass parents and parent …: how far one is, how its parts stand, how to manage it [P8] [P9] [P10]."""

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Sequence

import pytest

from tests.cli.kit import Desk
from tests.cli.test_jobs import HOSTILE, UNKNOWN
from tests.cli.test_top import drain
from tests.conformance.kit import Rig, failure
from windlass.cli.output import LINES, MARKS, bar, strip
from windlass.core.states import Kind, State
from windlass.store.records import Checkpoint, NewJob, Options

Made = Callable[[Rig], Awaitable[int]]


def made(desk: Desk, how: Made) -> str:
    """The id of a parent that was made in this way."""
    return str(desk.visit(how))


async def on_the_way(rig: Rig) -> int:
    """Six parts, three at a time: succeeded, dead, retrying, running, ready and waiting, in this order."""
    worker = await rig.worker()
    id = await rig.parent(worker, 6, parallel=3, tolerated=1)
    well, ill, again = await rig.claim(worker)
    await rig.finish(worker, well)
    await rig.finish(worker, ill, Kind.DEAD, error=failure(HOSTILE))
    await rig.store.promote()
    (running,) = await rig.claim(worker, limit=1)
    await rig.store.checkpoint(worker, running, Checkpoint('{"n": 30}', done=5, total=10))
    await rig.finish(worker, again, Kind.RETRY, delay=3600, error=failure("not yet"))
    await rig.store.promote()
    return id


async def unsplit(rig: Rig) -> int:
    """A job that no worker has split yet."""
    return (await rig.one(chunked=True)).id


async def failed(rig: Rig) -> int:
    """Three parts, of which the first is dead, and so is the parent."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3)
    ill, *well = await rig.claim(worker)
    await rig.finish(worker, ill, Kind.DEAD, error=failure())
    await rig.finish(worker, well)
    await rig.store.promote()
    return id


async def ended(rig: Rig) -> int:
    """Three parts and a finalizer, all well."""
    worker = await rig.worker()
    id = await rig.parent(worker, 3, finalizer=True)
    for _ in range(2):
        await rig.finish(worker, await rig.claim(worker))
        await rig.store.promote()
    return id


def test_p10_parents_tells_how_far_each_is(any_desk: Desk) -> None:
    first, second = made(any_desk, ended), made(any_desk, on_the_way)
    latest, earlier = any_desk.json("parents")["parents"]
    assert (latest["id"], earlier["id"]) == (second, first)
    assert (earlier["state"], earlier["succeeded"], earlier["total"]) == ("succeeded", 3, 3)
    assert earlier["progress"]["percent"] == 100
    assert earlier["progress"]["seconds_left"] is None
    assert (latest["dead"], latest["parallel"], latest["tolerated"]) == (1, 3, 1)
    assert (latest["size"], latest["done"], latest["records"]) == (60, 15, 30)
    assert (latest["progress"]["fraction"], latest["progress"]["unit"]) == (0.25, "size")
    assert latest["progress"]["records_per_second"] > 0
    assert latest["progress"]["seconds_left"] > 0
    assert latest["created_at"].endswith("Z")
    assert [parent["id"] for parent in any_desk.json("parents", "--active")["parents"]] == [second]
    assert len(any_desk.json("parents", "--limit", "1")["parents"]) == 1
    said = any_desk.ok("parents")
    assert "██░░░░░░░░ 25 %" in said
    assert "records/s" in said
    assert " 1/6, 1 failed " in said
    assert "1 part retrying (1 try)" in said


def test_p10_show_tells_everything(any_desk: Desk) -> None:
    id = made(any_desk, on_the_way)
    said = any_desk.ok("parent", "show", id)
    assert "state      waiting" in said
    assert "███████░░░░░░░░░░░░░░░░░░░░░░░ 25 %" in said
    assert "1 of 6 succeeded, 1 failed, 3 out" in said
    assert "15 of 60 units, 30 records" in said
    assert "up to 3 parts at a time" in said
    assert "1 of its parts may fail" in said
    assert "\n█x~▓░·\n" in said
    assert "x dead 1" in said
    assert "retrying   1 part retrying (1 try), last: ValueError: not yet" in said
    assert said.count("ValueError: not yet") == 2, "on the parent, and with the part"
    assert " 50% " in said


def test_p4_the_parts_in_json(any_desk: Desk) -> None:
    id = made(any_desk, on_the_way)
    answer = any_desk.json("parent", "show", id)
    assert (answer["id"], answer["strip"], answer["final_state"]) == (id, "sdtrqw", None)
    parts = any_desk.json("parent", "parts", id)["parts"]
    assert [part["index"] for part in parts] == [0, 1, 2, 3, 4, 5]
    assert {(part["parent"], part["total"], part["created_at"]) for part in parts} == {
        (id, 6, answer["created_at"])
    }
    assert [part["state"] for part in parts] == [
        *("succeeded", "dead", "retrying", "running", "ready", "waiting"),
    ]
    assert parts[1]["error"].startswith("ValueError: [red]")
    assert parts[2]["error"] == "ValueError: not yet"
    assert (parts[3]["done"], parts[3]["size"], parts[3]["records"], parts[3]["attempt"]) == (5, 10, 30, 1)
    assert parts[2]["span"] == [2]
    assert isinstance(parts[0]["job"], str)
    some = any_desk.json("parent", "parts", id, "--start", "2", "--limit", "2")["parts"]
    assert some == parts[2:4]
    assert "retrying (1 try)" in any_desk.ok("parent", "parts", id)


def test_m4_parts_that_are_tried_again_are_told_on_their_parent(any_desk: Desk) -> None:
    """[M4] [P10] How often, and what the last one failed with: in JSON, and where its job is shown."""
    over, id = made(any_desk, ended), made(any_desk, on_the_way)
    told = {"parts": 1, "tries": 1, "error": "ValueError: not yet", "text": "1 part retrying (1 try)"}
    assert any_desk.json("parents")["parents"][0]["retrying"] == told
    assert any_desk.json("parent", "show", id)["retrying"] == told
    assert any_desk.json("parent", "set", id, "--parallel", "4")["retrying"] == told
    assert "1 part retrying (1 try), last: ValueError: not yet" in any_desk.ok("job", "show", id)
    assert any_desk.json("parent", "show", over)["retrying"] is None
    assert "retrying" not in any_desk.ok("job", "show", over)


def test_m5_hostile_errors_are_shown_as_text(desk: Desk) -> None:
    said = desk.ok("parent", "show", made(desk, on_the_way))
    assert "ValueError: [red]x[/red] \\x1b]0;owned\\x07" in said
    assert "\x1b" not in said
    assert "\u202e" not in said


def test_p9_show_tells_how_it_ended_and_what_to_do(desk: Desk) -> None:
    well, ill = made(desk, ended), made(desk, failed)
    said = desk.ok("parent", "show", well)
    assert "100 %" in said
    assert re.search(r"finalizer  job \d+, succeeded\n", said)
    assert "redrive" not in said
    said = desk.ok("parent", "show", ill)
    assert "1 of its parts failed, 0 are tolerated" in said
    assert "took" in said
    assert f"`windlass parent redrive {ill}` runs the part that has not succeeded" in said


def test_p4_job_show_tells_of_parts_and_parents(any_desk: Desk) -> None:
    over, id = made(any_desk, ended), made(any_desk, on_the_way)
    part = any_desk.json("parent", "parts", id)["parts"][2]
    said = any_desk.ok("job", "show", part["job"])
    assert "index 2 (from 0) of 6" in said
    assert f"of parent  {id}, split 20" in said
    assert f"`windlass parent show {id}`" in said
    found = any_desk.json("job", "show", part["job"])["jobs"][0]["part"]
    assert (found["parent"], found["index"], found["total"], found["span"]) == (id, 2, 6, [2])
    assert found["created_at"] == part["created_at"]
    said = any_desk.ok("job", "show", id)
    assert "it waits for its parts" in said
    assert "1 of 6 parts succeeded, 25 %" in said
    assert f"`windlass parent show {id}`" in said
    final = any_desk.json("parent", "show", over)["final"]
    assert "part       finalizer" in any_desk.ok("job", "show", final)


def test_a_parent_that_was_enqueued_by_name(desk: Desk) -> None:
    """It did not know that it would be one."""

    async def fill(rig: Rig) -> int:
        worker = await rig.worker()
        id = (await rig.one()).id
        await rig.split(worker, await rig.run(worker, id), 2)
        return id

    id = made(desk, fill)
    assert "0 of 2 parts succeeded" in desk.ok("job", "show", id)
    assert "░░" in desk.ok("parent", "show", id)


def test_jobs_by_the_states_of_parents(any_desk: Desk) -> None:
    async def begin(rig: Rig) -> tuple[int, int]:
        worker = await rig.worker()
        splitting = await rig.bring(State.SPLITTING, worker)
        return splitting, await rig.parent(worker, 2)

    ids = dict(zip(("splitting", "waiting"), map(str, any_desk.visit(begin)), strict=True))
    for state, id in ids.items():
        assert [job["id"] for job in any_desk.json("jobs", "--state", state)["jobs"]] == [id]
    assert "a worker splits it into parts" in any_desk.ok("job", "show", ids["splitting"])


@pytest.mark.parametrize(
    "verb", [("show",), ("show", "--watch", "--json"), ("parts",), ("cancel",), ("redrive",)]
)
def test_an_id_that_is_no_parent(desk: Desk, verb: Sequence[str]) -> None:
    async def fill(rig: Rig) -> list[int]:
        worker = await rig.worker()
        dead = await unsplit(rig)
        await rig.finish(worker, await rig.run(worker, dead), Kind.DEAD)
        parent = await rig.parent(worker, 2)
        part = (await rig.strip(parent))[0].job
        assert part is not None
        return [dead, parent, part, (await rig.one("plain")).id]

    dead, parent, part, plain = desk.visit(fill)
    assert f"no parent {UNKNOWN}: it never existed" in desk.refused("parent", *verb, UNKNOWN)
    assert desk.refused("parent", *verb, str(part)) == (
        f"Error: job {part} is part 0 (from 0) of 2 of parent {parent}; see `windlass parent show {parent}`\n"
    )
    assert desk.refused("parent", *verb, str(plain)) == (
        f"Error: job {plain} of task plain is a plain job: it was not split into parts; "
        f"see `windlass job show {plain}`\n"
    )
    assert "has no parts: it ended dead before it was split" in desk.refused("parent", *verb, str(dead))
    assert "is not a job id" in desk.refused("parent", *verb, "first", code=2)


def test_one_that_is_not_split_yet(desk: Desk) -> None:
    id = made(desk, unsplit)
    assert f"job {id} is ready and has no parts until a worker of queue default has split it" in desk.refused(
        "parent", "show", id
    )


def test_p8_set_changes_how_many_run(any_desk: Desk) -> None:
    over, id = made(any_desk, ended), made(any_desk, on_the_way)
    said = any_desk.ok("parent", "set", id, "--parallel", "5")
    assert said == f"{id} runs up to 5 parts at a time; 3 are out now; see `windlass parent show {id}`\n"
    assert any_desk.json("parent", "set", id, "--parallel", "2")["parallel"] == 2
    any_desk.refused("parent", "set", id, "--parallel", "0", code=2)
    any_desk.refused("parent", "set", id, code=2)
    assert "no parent" in any_desk.refused("parent", "set", UNKNOWN, "--parallel", "2")
    assert "counts when it is redriven" in any_desk.ok("parent", "set", over, "--parallel", "1")


def test_p9_redrive_runs_the_failed_ones(any_desk: Desk) -> None:
    id = made(any_desk, failed)
    said = any_desk.ok("parent", "redrive", id)
    follow = f"follow it with `windlass parent show {id} --watch`"
    assert said == f"{id} runs 1 part (a finalizer counts as one) again; {follow}\n"
    answer = any_desk.run("parent", "redrive", id, "--json")
    assert (answer.exit_code, json.loads(answer.stdout)) == (1, {"redriven": 0})
    assert any_desk.json("parent", "show", id)["state"] == "waiting"
    answer = any_desk.run("parent", "redrive", id)
    assert (answer.exit_code, "neither its finalizer nor any part failed" in answer.stdout) == (1, True)


def test_p9_a_redrive_whose_key_is_taken_says_so(desk: Desk) -> None:
    async def fill(rig: Rig) -> int:
        worker = await rig.worker()
        id = await rig.parent(worker, 1, unique_key="dump")
        await rig.finish(worker, await rig.claim(worker), Kind.DEAD)
        await rig.store.promote()
        await rig.one(unique_key="dump")
        return id

    said = desk.refused("parent", "redrive", made(desk, fill))
    assert "'dump'" in said
    assert len(said.splitlines()) == 1


def test_p9_cancel_stops_what_is_out(any_desk: Desk) -> None:
    over, id = made(any_desk, ended), made(any_desk, on_the_way)
    said = any_desk.ok("parent", "cancel", id)
    assert said.startswith(f"{id} is being cancelled and waits for 1 part to stop; follow it")
    assert "waiting (cancel requested)" in any_desk.ok("parents")
    assert any_desk.json("parent", "cancel", id)["answer"] == "requested"
    answer = any_desk.run("parent", "cancel", over)
    assert (answer.exit_code, answer.stdout) == (
        1,
        f"{over} has already ended, succeeded; nothing was changed\n",
    )


# -- watching -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("how", "code"), [(ended, 0), (failed, 1)])
def test_p10_watch_ends_with_the_parent(desk: Desk, how: Made, code: int) -> None:
    id = made(desk, how)
    answer = desk.run("parent", "show", id, "--watch", "--json")
    assert answer.exit_code == code
    (frame,) = map(json.loads, answer.stdout.splitlines())
    assert frame["parent"]["id"] == id
    assert sum(frame["parent"]["states"].values()) == 3
    assert frame["at"].endswith("Z")


def test_watch_without_a_terminal_says_what_to_do(desk: Desk) -> None:
    assert "use --json, or leave --watch out" in desk.refused("parent", "show", "1", "--watch")


def test_p10_it_is_drawn_until_the_parent_has_ended(desk: Desk) -> None:
    """On a terminal, from before it is split; what is left on the screen is how it ended."""
    id = made(desk, unsplit)
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "windlass", "parent", "show", id, "--watch", "--database", desk.url]
    with (
        os.fdopen(mine, "r+b", buffering=0) as screen,
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as watch,
    ):
        os.close(theirs)
        drawn = b""
        while b"a worker will split it" not in drawn:
            drawn += screen.read(65536)

        async def run(rig: Rig) -> None:
            worker = await rig.worker()
            await rig.split(worker, await rig.run(worker, int(id)), 3)
            await rig.finish(worker, await rig.claim(worker))
            await rig.store.promote()

        desk.visit(run)
        drawn = drain(screen.fileno())
        assert watch.wait(30) == 0
    assert b"100 %" in drawn
    assert b"Traceback" not in drawn


# -- the strip ------------------------------------------------------------------------------------------


def plain(states: Sequence[State], width: int) -> list[str]:
    return [line.plain for line in strip(states, width)]


def test_p10_a_part_is_a_cell() -> None:
    states = [State.SUCCEEDED, State.DEAD, State.RUNNING, State.READY, State.SCHEDULED, State.WAITING]
    assert plain(states, 4) == [
        "█x▓░",
        "░·",
        "█ succeeded 1   · waiting 1   ░ ready or scheduled 2   ▓ running 1   x dead 1",
    ]
    assert plain([], 80) == []


def test_every_state_has_a_mark_of_its_own() -> None:
    """It can be read without colours."""
    marks = [mark for mark, _ in MARKS.values()]
    assert len(set(marks)) == len(marks)
    assert set(MARKS) == set(State) - {State.SCHEDULED, State.SPLITTING}


def test_p10_of_many_parts_a_cell_shows_the_worst() -> None:
    states = [State.SUCCEEDED] * 100_000
    states[7] = State.RUNNING
    states[8] = State.DEAD
    states[-1] = State.WAITING
    *lines, legend = plain(states, 100)
    assert len(lines) == LINES
    assert lines[0] == "x" + "█" * 99
    assert lines[-1] == "█" * 99 + "·"
    assert "succeeded 99,997" in legend
    assert "a cell is 125 parts" in legend


@pytest.mark.parametrize(
    ("fraction", "shown"), [(0, "░░░░"), (0.24, "░░░░"), (0.5, "██░░"), (0.999, "███░"), (1, "████")]
)
def test_a_bar_is_full_only_at_the_end(fraction: float, shown: str) -> None:
    assert bar(fraction, 4).plain == shown


# -- groups -------------------------------------------------------------------------------------------------


async def group_of_two(rig: Rig) -> int:
    """An open group of two jobs."""
    end = NewJob(task="end", payload="{}", options=Options(group_end=True, otherwise="run"))
    (group,) = await rig.store.enqueue([end])
    await rig.store.enqueue_in_group(group.id, [NewJob(task="t", payload="{}")] * 2)
    return group.id


def test_w4_a_group_is_shown_closed_and_cancelled(desk: Desk) -> None:
    id = made(desk, group_of_two)
    assert "2 jobs: 2 ready" in desk.run("group", "show", id).stdout
    assert json.loads(desk.run("group", "show", id, "--json").stdout)["counts"] == {"ready": 2}
    assert "closed" in desk.run("group", "close", id).stdout
    assert "was not open" in desk.run("group", "close", id).stdout
    assert "cancelled, with 2 jobs" in desk.run("group", "cancel", id).stdout
    assert "is cancelled, with 2 jobs: 2 cancelled" in desk.run("group", "show", id).stdout
    assert "had ended already; 0 jobs cancelled" in desk.run("group", "cancel", id).stdout
    assert "there is no group" in desk.refused("group", "show", UNKNOWN)
