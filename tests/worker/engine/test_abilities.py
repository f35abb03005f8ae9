"""Two workers of one queue, of which one has what some jobs need [K14]."""

from pathlib import Path

import pytest

from windlass import Part, Ranges, State, Windlass
from windlass.errors import InvalidName

SOON = "4s"
"""Less than a worker that hears of nothing would take on PostgreSQL."""


RAN: set[str] = set()
"""Who has run parts."""


@pytest.fixture(params=["sqlite", "postgres"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own."""
    if request.param == "postgres":
        return str(request.getfixturevalue("pg_dsn"))
    return f"sqlite:///{tmp_path / 'jobs.db'}"


def app_of(url: str, name: str) -> Windlass:
    """A program of its own, whose jobs return its name."""
    app = Windlass(url)

    @app.task(name="plain")
    async def plain() -> str:
        return name

    @app.task(name="heavy", needs={"gpu"})
    async def heavy() -> str:
        return name

    @app.chunked(name="parts", needs="gpu", split=Ranges(40, size=10))
    async def parts(part: Part) -> None:
        RAN.add(name)

    return app


async def test_each_runs_what_it_is_able_to(url: str) -> None:
    """[K14] A hundred jobs that need the other worker are in nobody's way, and run once it is there; it is
    woken by one that comes later, and runs plain jobs where it is alone."""
    cpu, gpu = app_of(url, "cpu"), app_of(url, "gpu")
    async with cpu.worker(["default"]):
        waiting = [await cpu.aenqueue("heavy") for _ in range(100)]
        for _ in range(3):
            assert await (await cpu.aenqueue("plain")).aresult(SOON) == "cpu"
        assert {await job.astatus() for job in waiting} == {State.READY}
        async with gpu.worker(["default"], abilities=["gpu", "disk"]):
            assert {await job.aresult("20s") for job in waiting} == {"gpu"}
            assert await (await cpu.aenqueue("heavy")).aresult(SOON) == "gpu"
    async with gpu.worker(["default"], abilities="gpu"):
        assert await (await cpu.aenqueue("plain")).aresult(SOON) == "gpu"


async def test_a_job_from_elsewhere_needs_what_its_task_does(url: str) -> None:
    """[K14] Whoever enqueues by name, from another program or from SQL, does not know what the code says. A
    worker that is not able to run it sends it on, and it runs once; a chunked one with its parts."""
    stranger, cpu, gpu = Windlass(url), app_of(url, "cpu"), app_of(url, "gpu")
    async with cpu.worker(["default"]), gpu.worker(["default"], abilities={"gpu"}):
        jobs = [await stranger.aenqueue("heavy") for _ in range(20)]
        assert {await job.aresult("20s") for job in jobs} == {"gpu"}
        keyed = [await stranger.named("heavy").using(concurrency_key="k").aenqueue() for _ in range(5)]
        assert {await job.aresult("20s") for job in keyed} == {"gpu"}
        assert {(await job.arecord()).attempt for job in (*jobs, *keyed)} == {1}
        parent = await stranger.aenqueue("parts")
        assert await parent.aresult("20s") is None
    assert {"gpu"} == RAN


async def test_a_job_may_need_more_or_less_than_its_task(url: str) -> None:
    """[K14] `.using(needs=…)` has the last word, and a change of the job that waits."""
    app = app_of(url, "cpu")
    heavy = app.tasks["heavy"]
    async with app.worker(["default"], abilities={"disk"}):
        assert await (await heavy.using(needs=[]).aenqueue()).aresult(SOON) == "cpu"
        assert await (await heavy.using(needs="disk").aenqueue()).aresult(SOON) == "cpu"
        job = await heavy.aenqueue()
        assert (await job.arecord()).options.needs == "gpu"
        assert await job.achange(needs=[]) == "changed"
        assert await job.aresult(SOON) == "cpu"


async def test_the_settings_say_what_a_worker_has(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """[K14] Where the call says nothing."""
    monkeypatch.setenv("WINDLASS_ABILITIES", "gpu, big-memory")
    app = app_of(url, "gpu")
    async with app.worker(["default"]):
        assert await (await app.aenqueue("heavy")).aresult(SOON) == "gpu"
        async with app._store_handle().here() as store:
            assert [each.abilities for each in await store.workers()] == [("big-memory", "gpu")]


def test_names_of_abilities_are_checked() -> None:
    """[E4] [K14] As those of queues are."""
    app = Windlass("sqlite:///:memory:")
    with pytest.raises(InvalidName, match="ability name 'GPU!' is not allowed"):
        app.worker(["default"], abilities=["GPU!"])
