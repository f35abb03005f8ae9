"""Children are forked from a process that has imported the app [K9]. With real processes and real kills."""

import os
import random
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import psutil
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import fork_server_of, process_name, until, worker_children
from tests.chaos.workers.kit import Scene
from tests.chaos.workers.row import Row
from tests.postgres_guard import alive
from windlass.core.retry import Backoff
from windlass.worker.processes import child as child_program
from windlass.worker.processes import fork_server as module

IMPORTED = """
with open(here / "imported", "a") as file:
    file.write(f"{os.getpid()}\\n")

@app.on_start
def start():
    (here / f"hook-{os.getpid()}").touch()
"""
HANGS = "(here / 'hangs').touch()\nwhile True: time.sleep(0.01)\n"
DIES = """
real = os.waitpid
def waitpid(*args):
    if (here / "die").exists():
        (here / "die").unlink()
        os.kill(os.getpid(), 9)
    return real(*args)
os.waitpid = waitpid
"""
FULL = """
real = os.fork
def fork():
    if (here / "full").exists():
        raise OSError(11, "Resource temporarily unavailable")
    return real()
os.fork = fork
"""
BIG = """
import gc
things = [{"number": n} for n in range(200_000)]

@app.on_start
def collect():
    gc.collect()
"""
OPENS = {
    "a thread": """
import threading
threading.Thread(target=time.sleep, args=(3600,), name="meter", daemon=True).start()
""",
    "a connection": "import socket\nkept = socket.socketpair()",
    "a database": "import apsw\nkept = apsw.Connection(str(here / 'o.db'))\nkept.pragma('user_version')",
    "a file": "kept = open(__file__)",
    "a loop": "kept = asyncio.new_event_loop()",
    "the app's own store": "app.queues()",
}
HARMLESS = """
log = open(here / "log", "a")
nothing = open(os.devnull)
"""


@pytest.fixture
async def row(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> AsyncIterator[Row]:
    caplog.set_level("INFO")
    monkeypatch.setattr(module, "RESTARTS", Backoff(0.05, 0.2))
    row = Row(tmp_path)
    yield row
    await row.close()


def imports(row: Row) -> list[int]:
    """The processes that have imported the app."""
    return [int(line) for line in (row.folder / "imported").read_text().splitlines()]


async def fork_server(row: Row, but: int = 0) -> psutil.Process:
    """The fork server, once it is there and has loaded the app: another one than that."""
    keeper = row.supervisor._fork_server
    await row.until(lambda: keeper._line is not None and keeper._process.pid != but)  # type: ignore[union-attr]
    found = fork_server_of(os.getpid())
    assert found is not None
    return psutil.Process(found)


def workers() -> list[int]:
    """The children of this process that are workers, whether or not the supervisor knows of them."""
    return [pid for pid in worker_children(os.getpid()) if process_name(pid) == child_program.NAME]


def children(row: Row) -> list[int]:
    return sorted(child.pid for child in row.supervisor._children)


async def test_k9_children_come_from_one_process_that_has_imported_the_app(row: Row) -> None:
    """They are the supervisor's own all the same."""
    row.write(IMPORTED)
    await row.start(processes=3)
    await row.until(lambda: row.up == 3)
    assert imports(row) == [(await fork_server(row)).pid]
    assert workers() == children(row)
    assert all((row.folder / f"hook-{pid}").exists() for pid in children(row))
    row.supervisor.stop()
    await row.left()
    assert fork_server_of(os.getpid()) is None
    assert workers() == []


async def test_a_killed_child_is_replaced_by_a_fork(row: Row) -> None:
    """What it ran goes on there, and costs it one death."""
    row.write(IMPORTED)
    await row.start()
    job = await row.enqueue()
    (child,) = row.supervisor._children
    (row.folder / "started").unlink()
    child.kill()
    await row.until((row.folder / "started").exists)
    assert child.pid not in children(row)
    assert len(imports(row)) == 1
    (row.folder / "gate").touch()
    row.supervisor.stop()
    await row.left()
    record = await row.line.job(job)
    assert (record.state, record.deaths) == ("succeeded", 1)


async def test_a_fork_server_that_dies_is_replaced_and_harms_nobody(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    row.write(IMPORTED)
    await row.start(processes=2)
    await row.until(lambda: row.up == 2)
    await row.enqueue()
    before, old = children(row), await fork_server(row)
    old.kill()
    new = await fork_server(row, but=old.pid)
    assert children(row) == before
    assert f"fork server {old.pid} was killed by SIGKILL; another one loads the app" in caplog.text
    os.kill(before[0], signal.SIGKILL)
    await row.until(lambda: row.up == 2 and before[0] not in children(row))
    assert imports(row) == [old.pid, new.pid]
    assert before[1] in children(row)


async def test_child_and_fork_server_may_die_together(row: Row) -> None:
    await row.start()
    await row.until(lambda: row.up == 1)
    (child,), old = children(row), await fork_server(row)
    old.kill()
    os.kill(child, signal.SIGKILL)
    await row.until(lambda: row.up == 1 and children(row) != [child])


async def test_a_fork_server_that_dies_half_way_leaves_nobody_behind(row: Row) -> None:
    """The child that it forked has no answer to wait for, and leaves; another one is forked."""
    row.write(DIES)
    await row.start()
    await row.until(lambda: row.up == 1)
    (child,) = children(row)
    (row.folder / "die").touch()
    os.kill(child, signal.SIGKILL)
    await row.until(lambda: row.up == 1 and children(row) != [child])
    assert not (row.folder / "die").exists()
    await row.until(lambda: workers() == children(row))


async def test_a_fork_server_that_was_stopped_is_given_up(row: Row, monkeypatch: pytest.MonkeyPatch) -> None:
    await row.start()
    await row.until(lambda: row.up == 1)
    (child,), old = children(row), await fork_server(row)
    monkeypatch.setattr(module, "FORK_TIME", 0.2)
    old.suspend()
    os.kill(child, signal.SIGKILL)
    await row.until(lambda: not old.is_running())
    monkeypatch.setattr(module, "FORK_TIME", 10.0)
    await row.until(lambda: row.up == 1 and children(row) != [child])


@pytest.mark.parametrize("what", OPENS)
async def test_what_a_fork_would_break_is_not_forked(
    row: Row, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    """Each child imports the app itself then, and the log says why."""
    row.write(IMPORTED + OPENS[what])
    await row.start(processes=2)
    await row.until(lambda: row.up == 2)
    assert "processes are started anew, not forked: the import has" in caplog.text
    if what == "a thread":
        assert "has started 1 thread (meter)" in caplog.text
    assert set(children(row)) < set(imports(row))
    assert fork_server_of(os.getpid()) is None
    row.supervisor.stop()
    await row.left()


async def test_a_log_that_is_appended_to_may_be_shared(row: Row, caplog: pytest.LogCaptureFixture) -> None:
    row.write(IMPORTED + HARMLESS)
    await row.start()
    await row.until(lambda: row.up == 1)
    assert len(imports(row)) == 1
    assert "started anew" not in caplog.text


async def test_children_may_be_started_anew_by_a_setting(row: Row) -> None:
    row.write(IMPORTED)
    await row.start(processes=2, start="exec")
    await row.until(lambda: row.up == 2)
    assert sorted(imports(row)) == children(row)
    assert fork_server_of(os.getpid()) is None


async def test_no_room_for_a_process_is_said_and_tried_again(
    row: Row, caplog: pytest.LogCaptureFixture
) -> None:
    row.write(FULL)
    (row.folder / "full").touch()
    await row.start()
    await row.until(lambda: "cannot start a process: [Errno 11] Resource temporarily" in caplog.text)
    (row.folder / "full").unlink()
    await row.until(lambda: row.up == 1)


async def test_chance_and_what_is_not_written_yet_are_each_childs_own(
    row: Row, capfd: pytest.CaptureFixture[str]
) -> None:
    """A fork copies the state of random numbers, and what waits in a buffer."""
    row.write("""
import random
print("imported", end="")
@app.on_start
def start():
    (here / f"chance-{os.getpid()}").write_text(f"{random.random()} {time.time()}")
""")
    random.seed(1)
    await row.start(processes=3)
    await row.until(lambda: row.up == 3)
    row.supervisor.stop()
    await row.left()
    chances = [path.read_text().split()[0] for path in row.folder.glob("chance-*")]
    assert len(set(chances)) == len(chances) == 3
    assert capfd.readouterr().out.count("imported") == 1


async def test_k9_after_a_reload_children_have_the_code_that_is_there_now(row: Row) -> None:
    """[K9] The process they come from has imported what was there before."""
    row.write(IMPORTED)
    await row.start(reloads=True)
    await row.until(lambda: row.up == 1)
    before, old = children(row), await fork_server(row)
    row.write(IMPORTED + "(here / 'changed').touch()\n")
    row.supervisor.reload()
    new = await fork_server(row, but=old.pid)
    assert (row.folder / "changed").exists()
    await row.until(lambda: row.up == 1 and children(row) != before)
    assert imports(row) == [old.pid, new.pid]


async def test_k9_code_that_hangs_is_given_up_once_it_is_mended(row: Row) -> None:
    """[K9] It may never be loaded."""
    row.write(HANGS)
    await row.start(reloads=True)
    await row.until((row.folder / "hangs").exists)
    row.write("")
    row.supervisor.reload()
    await row.until(lambda: row.up == 1)


async def test_a_supervisor_leaves_though_an_import_hangs(row: Row) -> None:
    row.write(HANGS)
    await row.start(processes=2)
    await row.until((row.folder / "hangs").exists)
    row.supervisor.stop()
    await row.left(within=10.0)
    assert fork_server_of(os.getpid()) is None


async def test_what_the_app_made_at_its_import_is_shared(row: Row, figure: Figure) -> None:
    """Also after a collection, which looks at every object that it knows of."""
    row.write(BIG)
    await row.start(processes=2)
    await row.until(lambda: row.up == 2)
    for pid in children(row):
        memory = psutil.Process(pid).memory_full_info()
        figure("MiB of a child in all, and of its own", f"{memory.rss >> 20}, {memory.uss >> 20}")
        assert memory.uss < memory.rss / 3


async def test_nobody_outlives_a_killed_supervisor(scene: Scene) -> None:
    """The fork server hears that nobody is there to ask it, and children look who their parent is."""
    host = await scene.host(processes=2)
    fork_server = fork_server_of(host.pid)
    assert fork_server is not None
    family = [fork_server, *host.children()]
    os.kill(host.pid, signal.SIGKILL)

    async def gone() -> bool:
        return not any(map(alive, family))

    await until(gone, 10.0)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
async def test_a_signal_to_all_processes_is_the_supervisors(scene: Scene, number: signal.Signals) -> None:
    """A terminal sends it to the group, an init system to the whole service."""
    host = await scene.host(processes=2)
    (job,) = await scene.enqueue("steady", seconds=1.0)
    await scene.seen(job)
    host.send_all(number)
    assert await host.leaves() == 0
    assert "fork server" not in host.log
    await scene.check()
