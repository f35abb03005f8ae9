"""windlass backup: a copy of a SQLite store in use, which works as a store of its own."""

import asyncio
import json
import os
import threading
import time
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from tests.cli.kit import Desk
from tests.conformance.kit import Rig
from windlass.core.states import State
from windlass.store.moving.backup import back_up


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    desk = Desk(f"sqlite:///{tmp_path.as_posix()}/jobs.db")
    desk.ok("migrate")
    return desk


def copy_of(desk: Desk, name: str = "copy.db") -> tuple[str, Desk]:
    file = desk.url.removeprefix("sqlite:///").replace("jobs.db", name)
    return file, Desk(f"sqlite:///{file}")


def test_the_copy_runs_what_waits_and_what_ran_once(desk: Desk) -> None:
    """Waiting jobs run there, running ones are offered again uncharged, and the original goes on."""
    file, copy = copy_of(desk)

    async def work(rig: Rig) -> None:
        worker = await rig.worker()
        for n in range(5):
            await rig.one("mail", payload=json.dumps({"n": n}))
        later = await rig.one("mail", delay=3600)
        held = await rig.claim(worker, "default", limit=2)
        assert len(held) == 2
        await asyncio.to_thread(back_it_up)
        # The original's worker still owns what it runs.
        await rig.finish(worker, held)
        assert await rig.state(later.id) is State.SCHEDULED

    def back_it_up() -> None:
        made = desk.json("backup", file)
        assert (made["workers"], made["offered_again"]) == (1, 2)

    desk.visit(work)
    assert not Path(f"{file}-wal").exists()
    with closing(apsw.Connection(file)) as connection:
        assert connection.execute("PRAGMA integrity_check").get == "ok"

    async def run(rig: Rig) -> None:
        assert await rig.store.workers() == []
        worker = await rig.worker()
        got = await rig.claim(worker, "default", limit=10)
        assert sorted(json.loads(job.payload)["n"] for job in got) == [0, 1, 2, 3, 4]
        assert {job.attempt for job in got} == {1}
        await rig.finish(worker, got)
        depth = (await rig.store.depth(["default"]))["default"]
        assert (depth.ready, depth.running, depth.scheduled) == (0, 0, 1)

    copy.visit(run)


def test_writers_are_not_held_up_and_the_copy_is_one_moment(desk: Desk) -> None:
    """Jobs are enqueued in pairs all the while: every copy holds whole pairs."""
    done = threading.Event()
    written: list[int] = []

    async def produce(rig: Rig) -> None:
        while not done.is_set():
            await rig.add("pair", "pair")
            written.append(1)

    thread = threading.Thread(target=lambda: desk.visit(produce))
    thread.start()
    try:
        while not written:
            assert thread.is_alive()
            time.sleep(0.001)
        for n in range(3):
            before = len(written)
            file, _ = copy_of(desk, f"copy{n}.db")
            desk.ok("backup", file)
            assert len(written) > before  # others wrote meanwhile
            with closing(apsw.Connection(file)) as connection:
                found = connection.execute("SELECT count(*) FROM windlass_job").get
            assert found % 2 == 0
            assert found >= 2 * before
    finally:
        done.set()
        thread.join()


def test_an_existing_file_stays_unless_forced(desk: Desk) -> None:
    file, _ = copy_of(desk)
    Path(file).write_text("mine")
    assert "--force" in desk.refused("backup", file)
    assert Path(file).read_text() == "mine"
    assert "passes integrity_check" in desk.ok("backup", file, "--force")
    assert Path(file).read_bytes().startswith(b"SQLite format 3")
    assert list(Path(file).parent.glob("*.part*")) == []


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o666])
def test_the_copy_is_as_private_as_the_original(desk: Desk, mode: int) -> None:
    """And nobody may look at it while it is made, whatever the umask."""
    file, _ = copy_of(desk)
    Path(desk.url.removeprefix("sqlite:///")).chmod(mode)
    seen: set[int] = set()

    def look(done: int, total: int) -> None:
        (part,) = Path(file).parent.glob("copy.db.part-*")
        seen.add(part.stat().st_mode & 0o777)

    before = os.umask(0o022)
    try:
        back_up(desk.url.removeprefix("sqlite:///"), file, progress=look)
    finally:
        os.umask(before)
    assert seen == {0o700}
    assert Path(file).stat().st_mode & 0o777 == mode


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another group")
def test_the_copy_has_the_group_of_the_original(desk: Desk) -> None:
    source, (file, _) = desk.url.removeprefix("sqlite:///"), copy_of(desk)
    os.chown(source, -1, 20100)
    desk.ok("backup", file)
    assert Path(file).stat().st_gid == 20100


def test_it_refuses_itself_a_file_in_use_and_a_missing_store(desk: Desk, tmp_path: Path) -> None:
    own = desk.url.removeprefix("sqlite:///")
    assert "the store itself" in desk.refused("backup", own, "--force")
    file, _ = copy_of(desk)
    Path(f"{file}-wal").write_text("")
    assert "has " + file + " open" in desk.refused("backup", file, "--force")
    away = str(tmp_path / "none" / "x.db")
    assert f"{away} cannot be written: make the folder" in desk.refused("backup", away)
    assert "no such file" in Desk(f"sqlite:///{tmp_path.as_posix()}/none.db").refused("backup", file)


def test_postgresql_is_told_what_to_use(pg_dsn: str, tmp_path: Path) -> None:
    assert "pg_dump" in Desk(pg_dsn).refused("backup", str(tmp_path / "x.db"))
