"""Processes that others forked, and that become ours."""

import os
import signal
import subprocess
import sys

import psutil
import pytest

from tests.postgres_guard import alive
from tests.worker.line import until
from windlass.running.process_group import exited
from windlass.worker.processes.adoption import Adopted, adopting

BETWEEN = """
import os, sys, time
orphan = os.fork()
if orphan:
    print(orphan, flush=True)
    os._exit(0)
os.close(1)
os.close(2)
{code}
"""
PARENT = """
import os, time
from windlass.worker.processes.adoption import end_with_parent
child = os.fork()
if child == 0:
    end_with_parent()
    print(os.getpid(), flush=True)
time.sleep(3600)
"""


def orphan(code: str) -> int:
    """A process whose parent has ended; it runs this."""
    program = [sys.executable, "-c", BETWEEN.format(code=code)]
    return int(subprocess.run(program, capture_output=True, check=True).stdout)


@pytest.mark.parametrize(
    ("code", "end"),
    [("os._exit(7)", 7), ("os.kill(os.getpid(), 15)", -signal.SIGTERM)],
)
async def test_an_orphan_is_adopted_with_its_exit_code(code: str, end: int) -> None:
    with adopting():
        child = Adopted(orphan(code))
        assert child.is_ours
    await exited(child)
    assert (child.wait(), child.poll(), child.returncode) == (end, end, end)
    assert not psutil.pid_exists(child.pid), "reaped"


async def test_an_adopted_child_can_be_killed_and_kills_no_stranger_later() -> None:
    with adopting():
        child = Adopted(orphan("time.sleep(3600)"))
    assert child.poll() is None
    child.kill()
    await exited(child)
    assert child.wait() == -signal.SIGKILL
    child.kill()  # its number may be another's by now


async def test_orphans_are_adopted_only_for_as_long_as_was_asked() -> None:
    with adopting():
        pass
    stranger = orphan("time.sleep(3600)")
    try:
        assert not Adopted(stranger).is_ours
    finally:
        os.kill(stranger, signal.SIGKILL)


async def test_a_process_ends_with_its_parent() -> None:
    parent = subprocess.Popen(  # noqa: ASYNC220 - to start it is quick
        [sys.executable, "-c", PARENT], stdout=subprocess.PIPE
    )
    try:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
    finally:
        parent.kill()
        parent.communicate()
    await until(lambda: not alive(child), 10.0)
