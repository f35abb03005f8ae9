"""windlass top: one frame without a terminal, a live one on a terminal, rates between frames."""

import os
import pty
import subprocess
import sys

import pytest

from tests.cli.kit import Desk
from tests.cli.test_queues import served
from windlass.cli.top import rates
from windlass.presentation.cluster_state import ClusterState
from windlass.store.records import ClusterView, Depth


def test_one_frame_without_a_terminal(any_desk: Desk) -> None:
    served(any_desk)
    said = any_desk.ok("top", "--once")
    assert "imports" in said
    assert "box-worker-[b]1" in said
    frame = any_desk.json("top", "--once")
    mail = frame["queues"][1]
    assert (mail["name"], mail["ready"], mail["running"], mail["unfinished_per_second"]) == (
        "mail",
        2,
        1,
        None,
    )
    assert [worker["pid"] for worker in frame["workers"]] == [42]
    assert frame["at"].endswith("Z")


def test_f1_f3_what_jobs_stand_aside_for(any_desk: Desk) -> None:
    """Budgets that are short, and the gates with the longest waits; what has enough is not shown."""
    assert "budget" not in any_desk.ok("top", "--once")
    any_desk.ok("budget", "set", "plenty", "--rate", "10/s")
    any_desk.ok("budget", "set", "scarce", "--rate", "1/h")
    any_desk.ok("budget", "take", "scarce")
    any_desk.visit(lambda rig: rig.add("a", "b", queue="mail", concurrency_key="tenant-7"))
    any_desk.visit(lambda rig: rig.store.promote())
    said = any_desk.ok("top", "--once")
    assert "scarce" in said
    assert "plenty" not in said
    assert "waits for a slot of concurrency key 'tenant-7'" in said
    frame = any_desk.json("top", "--once")
    assert [budget["name"] for budget in frame["short_budgets"]] == ["scarce"]
    assert [(gate["name"], gate["waiting"]) for gate in frame["gates"]] == [("key:tenant-7", 1)]


def test_o3_cool_downs_are_shown(desk: Desk) -> None:
    served(desk)
    desk.visit(lambda rig: rig.store.throttle("mail", 600))
    assert "throttled, resumes in 9 min" in desk.ok("top", "--once")


def test_without_a_terminal_it_says_what_to_do(desk: Desk) -> None:
    assert "use --once or --json" in desk.refused("top")


@pytest.mark.parametrize("interval", ["0s", "50ms", "often"])
def test_an_interval_that_makes_no_sense(desk: Desk, interval: str) -> None:
    desk.refused("top", "--once", "--interval", interval, code=2)


def test_rates_are_changes_per_second() -> None:
    def sample(tick: float, depth: Depth) -> ClusterState:
        return ClusterState(ClusterView({}, {}, {}), {"mail": depth}, [], 0.0, tick)

    before = sample(10.0, Depth(ready=100, running=10, dead=1))
    after = sample(12.0, Depth(ready=60, running=10, retrying=4, dead=5))
    assert tuple(rates(after, before, "mail")) == (-18.0, 2.0)
    assert tuple(rates(after, before, "unknown")) == (0.0, 0.0)
    assert tuple(rates(after, None, "mail")) == (None, None)
    assert tuple(rates(after, after, "mail")) == (None, None)


def test_it_draws_on_a_terminal_until_q(desk: Desk) -> None:
    served(desk)
    mine, theirs = pty.openpty()
    command = [sys.executable, "-m", "windlass", "top", "--interval", "100ms", "--database", desk.url]
    with (
        os.fdopen(mine, "r+b", buffering=0) as screen,
        subprocess.Popen(command, stdin=theirs, stdout=theirs, stderr=theirs) as top,
    ):
        os.close(theirs)
        drawn = b""
        while drawn.count(b"imports") < 3:  # it is drawn again and again
            drawn += screen.read(65536)
        screen.write(b"q")
        drawn += drain(screen.fileno())
        assert top.wait(30) == 0
    assert b"Traceback" not in drawn


def drain(screen: int) -> bytes:
    """What is still drawn until the other side hangs up, which Linux reports as an error."""
    drawn = b""
    try:
        while more := os.read(screen, 65536):
            drawn += more
    except OSError:
        pass
    return drawn


def test_json_goes_on_frame_after_frame(desk: Desk) -> None:
    served(desk)
    command = [sys.executable, "-m", "windlass", "top", "--json", "--interval", "100ms"]
    with subprocess.Popen([*command, "--database", desk.url], stdout=subprocess.PIPE, text=True) as top:
        assert top.stdout is not None
        first, second = top.stdout.readline(), top.stdout.readline()
        top.terminate()
    assert '"unfinished_per_second": null' in first
    assert '"unfinished_per_second": 0.0' in second
