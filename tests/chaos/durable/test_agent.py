"""[W1] [W2] [W3] The agent of the examples: its worker is killed at each boundary of its steps and in them,
everything is started anew while a human thinks, the server included, and its stream is read without a gap."""

import asyncio
import contextlib
import signal
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from tests.chaos.workers.kit import Scene
from tests.postgres import Server
from tests.web.api.test_job_stream import Message, messages
from tests.web.kit import served
from windlass import Windlass

APP = "tests.chaos.durable.killed_agent:app"
STEPS, WHEN = ("plan", "act", "report"), ("before", "tells", "ends", "after")
POINTS = [f"{step} {when}" for step in STEPS for when in WHEN]
APART = 3
QUEUES = ("agents=1",)


def tell(scene: Scene, job: int, point: str) -> None:
    """Where the job is to be killed."""
    Path(f"{scene.ledger}.{job}.goal").write_text(point, "utf-8")


def was_killed(scene: Scene, job: int) -> bool:
    """Whether its goal was reached."""
    return Path(f"{scene.ledger}.{job}").exists()


@pytest.mark.slow
@pytest.mark.parametrize("first", range(APART))
async def test_an_agent_survives_its_workers(scene: Scene, first: int) -> None:
    points = POINTS[first::APART]
    jobs = {point: (await scene.enqueue("agent", queue="agents", goal="g"))[0] for point in points}
    for point, job in jobs.items():
        tell(scene, job, point)
    async with Windlass(scene.url) as app:
        seen: dict[int, list[int]] = {job: [] for job in jobs.values()}

        async def read(job: int) -> None:
            async for event in app.job(job).events():
                seen[job].append(event.position)

        readers = [asyncio.create_task(read(job)) for job in jobs.values()]
        host = await scene.host(APP, queues=QUEUES)
        for job in jobs.values():
            await scene.state(job, "scheduled", within=60)
        host.send(signal.SIGTERM)
        assert await host.leaves() == 0
        await scene.host(APP, queues=QUEUES)
        for job in jobs.values():
            assert await app.asignal(job, "approved", {"ok": True}) in ("delivered", "kept")
        for point, job in jobs.items():
            record = await scene.state(job, "succeeded", within=60)
            assert record.result == '"<<<plan g> done> done> done"', point
            ran = Counter(entry.note for entry in scene.entries(job, "effect"))
            step, when = point.split()
            assert was_killed(scene, job), f"nobody was killed at {point}"
            twice = step if when in ("tells", "ends") else None
            assert ran == {name: 1 + (name == twice) for name in ("plan", "act", "report")}, point
        await asyncio.wait_for(asyncio.gather(*readers), 20)
        for job, positions in seen.items():
            assert positions == list(range(1, len(positions) + 1))
            whole = [event.value async for event in app.job(job).events(follow=False)]
            assert len(whole) == len(positions)
            assert whole[-1] == "done"
            assert len(whole) >= 6


@contextlib.contextmanager
def stores(kind: str, folder: Path) -> Iterator[tuple[str, Callable[[], None]]]:
    """The address of a store, and what starts its server anew after a crash: SQLite has none."""
    if kind == "sqlite":
        yield f"sqlite:///{folder}/jobs.db", lambda: None
        return
    with Server(18, fsync=False) as server:
        dsn = server.dsn(server.create_database())

        def crash() -> None:
            server.kill9()
            server.start()

        yield dsn, crash


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["postgres", "sqlite"])
async def test_a_wait_and_its_readers_outlive_everything(kind: str, tmp_path: Path) -> None:
    """[fault 6] Worker, web and server are gone while the agent waits. A browser comes back with the id of
    the last event that it has seen, and once more when a worker was killed in the middle of a step."""
    seen: list[Message] = []
    with stores(kind, tmp_path) as (url, crash):
        with Windlass(url) as app:
            await app.amigrate()
        async with Scene(url, tmp_path) as scene:
            (job,) = await scene.enqueue("agent", queue="agents", goal="g")
            host = await scene.host(APP, queues=QUEUES)
            await scene.state(job, "scheduled", within=60)
            with Windlass(url) as app, served(app) as address:
                await read(address, job, seen, 1)
            scene.kill_host(host)
        await asyncio.to_thread(crash)
        later = tmp_path / "later"
        later.mkdir()
        async with Scene(url, later) as scene:
            scene.ledger = tmp_path / "jobs.ledger"
            tell(scene, job, "act tells")
            with Windlass(url) as app, served(app) as address:
                async with httpx.AsyncClient(base_url=address) as human:
                    path = f"/api/jobs/{job}/signals/approved"
                    answer = await human.post(path, json={"value": {"ok": True}})
                    assert answer.json() == {"answer": "delivered"}
                await scene.host(APP, queues=QUEUES)
                await read(address, job, seen, 1)
                await read(address, job, seen, 1)
                await read(address, job, seen)
            record = await scene.state(job, "succeeded", within=60)
            assert record.result == '"<<<plan g> done> done> done"'
            ran = Counter(entry.note for entry in scene.entries(job, "effect"))
            assert ran == {"plan": 1, "act": 2, "report": 1}
            async with Windlass(url) as app:
                whole = [event async for event in app.job(job).events(follow=False)]
    assert seen.pop().kind == "end"
    assert [message.id for message in seen] == [str(n) for n in range(1, len(whole) + 1)]
    assert [message.data["value"] for message in seen] == [event.value for event in whole]
    assert [event.value for event in whole] == [
        "<plan g>", "done", "<<plan g> done>", "<<plan g> done>", "done", "<<<plan g> done> done>", "done",
    ]  # fmt: skip


async def read(address: str, job: int, seen: list[Message], n: int | None = None) -> None:
    """As a browser does: from behind the last event it has seen; n of them, or to the end."""
    behind = {"last-event-id": seen[-1].id} if seen else {}
    async with (
        asyncio.timeout(30),
        httpx.AsyncClient(base_url=address, timeout=30) as browser,
        browser.stream("GET", f"/api/jobs/{job}/events", headers=behind) as stream,
    ):
        async for message in messages(stream):
            seen.append(message)
            n = None if n is None else n - 1
            if n == 0:
                break
