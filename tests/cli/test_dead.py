"""windlass dead …: bulk retry and purge with a preview, a question and a bar [O6]."""

import os
import pty
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import FileIO

import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.store.records import Failure


def buried(
    desk: Desk, count: int, task: str = "t", queue: str = "default", error: str = "ValueError"
) -> list[str]:
    """Dead jobs, by their ids."""

    async def bury(rig: Rig) -> list[int]:
        ids = await rig.add(*([task] * count), queue=queue, tags=("old",))
        worker = await rig.worker()
        died_of = Failure(error, "boom", "Traceback ...")
        await rig.finish(worker, await rig.claim(worker, queue, limit=count), Kind.DEAD, error=died_of)
        return ids

    return [str(id) for id in desk.visit(bury)]


def count(desk: Desk, state: State) -> int:
    return len(desk.visit(lambda rig: rig.listing(state=state)))


def test_list_shows_dead_jobs_with_their_error(desk: Desk) -> None:
    ids = buried(desk, 2)
    desk.ok("enqueue", "other")
    assert {job["id"] for job in desk.json("dead", "list")["jobs"]} == set(ids)
    assert "ValueError: boom" in desk.ok("dead", "list", "--queue", "default", "--limit", "1")
    assert desk.json("dead", "list", "--task", "none")["jobs"] == []


def test_o6_retry_by_filter_previews_and_asks(any_desk: Desk) -> None:
    buried(any_desk, 3, "a")
    buried(any_desk, 2, "b")
    no = any_desk.run("dead", "retry", "--task", "a", stdin="n\n")
    assert no.exit_code == 1
    assert "retry 3 dead jobs? [y/N]" in no.stderr
    assert any_desk.ok("dead", "retry", "--task", "a", "--limit", "1", "--dry-run") == "1 dead job to retry\n"
    assert count(any_desk, State.DEAD) == 5
    yes = any_desk.run("dead", "retry", "--task", "a", stdin="y\n")
    assert (yes.exit_code, yes.stdout) == (0, "3 retried\n")
    assert (count(any_desk, State.DEAD), count(any_desk, State.READY)) == (2, 3)


def test_o6_by_error(any_desk: Desk) -> None:
    """Listed, retried and purged by the type of the last failure."""
    values = buried(any_desk, 2)
    keys = buried(any_desk, 1, error="KeyError")
    assert [job["id"] for job in any_desk.json("dead", "list", "--error", "KeyError")["jobs"]] == keys
    assert {job["id"] for job in any_desk.json("jobs", "--error", "ValueError")["jobs"]} == set(values)
    assert any_desk.json("jobs", "--error", "ValueError", "--state", "ready")["jobs"] == []
    assert any_desk.ok("dead", "retry", "--error", "KeyError", "--yes") == "1 retried\n"
    assert any_desk.ok("dead", "purge", "--error", "", "--yes") == "0 dead jobs to remove\n"
    assert any_desk.ok("dead", "purge", "--error", "ValueError", "--yes") == "2 deleted\n"


def test_causes_counts_dead_jobs_by_what_they_died_of(any_desk: Desk) -> None:
    buried(any_desk, 2)
    buried(any_desk, 3, "load", error="KeyError")
    buried(any_desk, 1, queue="other", error="OSError")
    found = any_desk.json("dead", "causes")
    assert [(group["jobs"], group["task"], group["error"]) for group in found["groups"]] == [
        (3, "load", "KeyError"),
        (2, "t", "ValueError"),
        (1, "t", "OSError"),
    ]
    assert (found["looked"], found["more"]) == (6, False)
    assert found["groups"][0].keys() == {"jobs", "task", "error", "last_at", "message"}
    lines = any_desk.ok("dead", "causes", "--queue", "other").splitlines()
    assert re.search(r"1\s+t\s+OSError\s.*\sboom$", lines[-1])
    assert any_desk.json("dead", "causes", "--task", "load")["groups"] == found["groups"][:1]
    assert any_desk.json("dead", "causes", "--queue", "none")["groups"] == []


def test_o6_purge_all_without_asking(desk: Desk) -> None:
    buried(desk, 3)
    desk.ok("enqueue", "alive")
    assert desk.ok("dead", "purge", "--all", "--dry-run") == "3 dead jobs to remove\n"
    assert desk.json("dead", "purge", "--all", "--yes") == {
        "found": 3,
        "more": False,
        "answers": {"deleted": 3},
    }
    assert (count(desk, State.DEAD), count(desk, State.READY)) == (0, 1)
    assert desk.ok("dead", "purge", "--all", "--yes") == "0 dead jobs to remove\n"


def test_o6_a_limit_takes_the_newest(desk: Desk) -> None:
    ids = buried(desk, 4)
    result = desk.run("dead", "purge", "--tag", "old", "--limit", "2", stdin="y\n")
    assert "remove 2 dead jobs?" in result.stderr
    left = desk.visit(lambda rig: rig.listing())
    assert [str(job.id) for job in left] == ids[1::-1]


def test_o6_by_id_only_what_is_dead(desk: Desk) -> None:
    first, second = buried(desk, 2)
    alive = desk.json("enqueue", "alive")["id"]
    assert desk.ok("dead", "retry", first) == f"{first} retried\n"
    result = desk.run("dead", "purge", alive, second)
    assert result.exit_code == 1
    assert f"{alive} not dead but ready" in result.stdout
    assert f"{second} deleted" in result.stdout
    assert desk.visit(lambda rig: rig.state(int(alive))) is State.READY
    assert "no job 987654321:" in desk.refused("dead", "purge", "987654321")


@pytest.mark.parametrize(
    "arguments", [(), ("--all", "--queue", "mail"), ("7", "--all"), ("7", "--task", "t")]
)
@pytest.mark.parametrize("verb", ["retry", "purge"])
def test_it_must_be_clear_which_jobs_are_meant(desk: Desk, verb: str, arguments: tuple[str, ...]) -> None:
    buried(desk, 1)
    assert "and only one of these" in desk.refused("dead", verb, "--yes", *arguments, code=2)
    assert count(desk, State.DEAD) == 1


def test_a_dry_run_by_id_changes_nothing(desk: Desk) -> None:
    (id,) = buried(desk, 1)
    assert desk.ok("dead", "purge", id, "--dry-run") == f"{id} dead\n"
    assert count(desk, State.DEAD) == 1


def pieces(screen: FileIO) -> Iterator[bytes]:
    """What was drawn, until nobody draws any more; Linux says that with an error."""
    with suppress(OSError):
        while piece := screen.read(65536):
            yield piece


def test_the_bar_is_for_terminals_alone(desk: Desk) -> None:
    buried(desk, 3)
    command = [
        sys.executable,
        "-m",
        "windlass",
        "dead",
        "retry",
        "--all",
        "--yes",
        "--database",
        desk.url,
    ]
    mine, theirs = pty.openpty()
    with os.fdopen(mine, "rb", buffering=0) as screen:
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True)
        os.close(theirs)
        drawn = b"".join(pieces(screen))
    assert done.stdout == b"3 retried\n"
    assert b"3/3" in drawn
    buried(desk, 1)
    done = subprocess.run(command, capture_output=True, check=True)
    assert (done.stdout, done.stderr) == (b"1 retried\n", b"")
