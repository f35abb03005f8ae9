"""Spares: processes that have loaded the app and wait for a place [K9]. With real children and real kills."""

import os
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.chaos.workers.row import Row
from tests.worker.line import until
from windlass.core.retry import Backoff
from windlass.worker.processes import spares as module
from windlass.worker.processes.process import Process

HOOKS = """
@app.on_start
def start():
    (here / f"hook-{os.getpid()}").touch()
"""


@pytest.fixture
async def row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Row]:
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "AFTER", 0.0)
    monkeypatch.setattr(module, "RESTARTS", Backoff(0.05, 0.2))
    row = Row(tmp_path)
    yield row
    await row.close()


async def waiting(row: Row, but: frozenset[int] = frozenset()) -> Process:
    """The spare of the row, once it waits: another one than those."""
    idle = row.supervisor._spares._idle
    await row.until(lambda: {child.pid for child in idle} - but)
    return next(child for child in idle if child.pid not in but)


async def test_a_spare_takes_the_place_of_the_dead(row: Row) -> None:
    """What the dead one ran goes on in it, and there is another spare then."""
    row.write(HOOKS)
    await row.start(spares=1)
    job = await row.enqueue()
    spare = await waiting(row)
    assert not (row.folder / f"hook-{spare.pid}").exists(), "a spare runs no hooks"
    assert len(await row.line.workers()) == 1, "a spare has no identity"
    (child,) = row.supervisor._children
    (row.folder / "started").unlink()
    child.kill()
    await row.until((row.folder / "started").exists)
    assert list(row.supervisor._children) == [spare]
    assert (row.folder / f"hook-{spare.pid}").exists()
    await waiting(row, but=frozenset({child.pid, spare.pid}))
    (row.folder / "gate").touch()
    row.supervisor.stop()
    await row.left()
    record = await row.line.job(job)
    assert (record.state, record.deaths) == ("succeeded", 1)


async def test_a_spare_that_dies_is_replaced_and_costs_nobody_anything(row: Row) -> None:
    await row.start(spares=2)
    first = await waiting(row)
    second = await waiting(row, but=frozenset({first.pid}))
    first.kill()
    await waiting(row, but=frozenset({first.pid, second.pid}))
    assert row.up == 1
    assert first not in row.supervisor._spares._idle


async def test_one_that_is_stopped_is_not_taken(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    """It could not work; the place is filled all the same."""
    await row.start(spares=1)
    spare = await waiting(row)
    monkeypatch.setattr(spare, "can_run", lambda: False)  # a real SIGSTOP might hit it with SQLite's lock
    (child,) = row.supervisor._children
    child.kill()
    await row.until(lambda: row.up == 1 and child not in row.supervisor._children)
    assert spare not in row.supervisor._children


async def test_the_spare_goes_with_its_supervisor(row: Row) -> None:
    await row.start(spares=1)
    spare = psutil.Process((await waiting(row)).pid)
    row.supervisor.stop()
    await row.left()
    assert not spare.is_running()


async def test_k9_a_spare_has_the_code_that_is_there_now(row: Row) -> None:
    """[K9] After a reload those that waited with the code of before are replaced."""
    await row.start(spares=1, reloads=True)
    old = await waiting(row)
    row.write("changed = True\n")
    row.supervisor.reload()
    await waiting(row, but=frozenset({old.pid}))
    assert old.pid not in {child.pid for child in row.supervisor._children}


async def test_k9_a_spare_that_hangs_in_the_code_of_before_is_given_up(row: Row) -> None:
    """[K9] It may never be loaded; once the code is mended, another one is."""
    await row.start(spares=1, reloads=True)
    old = await waiting(row)
    row.write("(here / 'hangs').touch()\nwhile True: time.sleep(0.01)\n")
    old.kill()
    await row.until((row.folder / "hangs").exists)
    row.write("")
    row.supervisor.reload()
    await waiting(row, but=frozenset({old.pid}))


async def test_a_child_that_leaves_makes_room_for_the_spare(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """As after so many jobs: the place is not empty while an interpreter starts."""
    await row.start(spares=1)
    spare = await waiting(row)
    (child,) = row.supervisor._children
    os.kill(child.pid, signal.SIGTERM)
    await row.until(lambda: "it received SIGTERM" in caplog.text)
    await row.until(lambda: list(row.supervisor._children) == [spare] and row.up == 1)


async def test_a_spare_that_cannot_be_loaded_is_tried_again(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    """And whoever works goes on."""
    await row.start(spares=1)
    spare = await waiting(row)
    row.write("def broken(:\n")
    spare.kill()
    await row.until(lambda: caplog.text.count("is available: shop cannot be imported") >= 2)
    assert row.up == 1
    row.write("")
    await waiting(row, but=frozenset({spare.pid}))


async def test_a_spare_without_its_supervisor_leaves(row: Row) -> None:
    """One that was killed could not tell it to: it hears that the line is cut."""
    await row.start(spares=1)
    spare = await waiting(row)
    process = psutil.Process(spare.pid)
    await spare._channel.close()
    await until(lambda: not process.is_running() or process.status() == psutil.STATUS_ZOMBIE, 10.0)
