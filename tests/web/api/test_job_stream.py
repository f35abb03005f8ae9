"""Server-sent events of one job: every event once and in order, from any position, to the end [W3]."""

import asyncio
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from tests.stopwatch import within
from tests.web.kit import OPERATE, READ, basic, bearer, rigged, served, visiting
from windlass import Context, Windlass
from windlass.core.ids import MAX_POSITION
from windlass.core.states import Kind
from windlass.operations.principal import Principal, Role
from windlass.store.records import Emits
from windlass.web.api import stream as api_stream
from windlass.web.api.job_stream import JobStream
from windlass.web.http.guard import PRINCIPAL
from windlass.web.service.service import Service
from windlass.web.service.ticker import Ticker


class Message(NamedTuple):
    """One that was dispatched."""

    kind: str
    id: str
    data: Any


async def messages(answer: httpx.Response) -> AsyncIterator[Message]:
    """What an EventSource would dispatch."""
    fields: dict[str, str] = {}
    last = ""
    async for line in answer.aiter_lines():
        if not line:
            if "data" in fields:
                yield Message(fields.get("event", "message"), last, json.loads(fields["data"]))
            fields = {}
        elif not line.startswith(":"):
            name, _, value = line.partition(": ")
            fields[name] = value
            last = value if name == "id" else last


def with_answer(app: Windlass) -> Any:
    @app.task(name="answer")
    async def answer(ctx: Context, n: int, pause: float = 0.0) -> None:
        for i in range(n):
            await ctx.emit(f"token {i}")
            await asyncio.sleep(pause)

    return answer


async def test_w3_events_come_with_their_positions_and_end_with_the_state(tmp_path: Path) -> None:
    with Windlass(f"sqlite:///{tmp_path}/jobs.db") as app:
        answer = with_answer(app)
        await app.amigrate()
        job = await answer.aenqueue(20, 0.02)
        with served(app, read=[READ], operate=[OPERATE]) as address:
            async with app.worker({"default": 1}), httpx.AsyncClient(base_url=address) as visitor:
                async with visitor.stream("GET", f"/api/jobs/{job}/events", headers=bearer(READ)) as stream:
                    assert stream.headers["content-type"].startswith("text/event-stream")
                    found = [message async for message in messages(stream)]
                stranger = await visitor.get(f"/api/jobs/{job}/events")
                assert stranger.status_code == 401
    assert found[-1] == Message("end", "20", {"state": "succeeded"})
    assert [message.data["value"] for message in found[:-1]] == [f"token {i}" for i in range(20)]
    assert [message.id for message in found[:-1]] == [str(i) for i in range(1, 21)]
    assert {message.data["attempt"] for message in found[:-1]} == {1}


@pytest.mark.parametrize(
    ("query", "headers", "first"),
    [
        ("", {}, 1),
        ("?after=3", {}, 4),
        ("", {"last-event-id": "7"}, 8),
        ("?after=3", {"last-event-id": "7"}, 8),
    ],
)
async def test_w3_a_client_goes_on_where_it_stopped(
    app: Windlass, query: str, headers: dict[str, str], first: int
) -> None:
    answer = with_answer(app)
    await app.amigrate()
    job = await answer.aenqueue(10)
    async with app.worker({"default": 1}):
        await job.aresult("10s")
    async with visiting(app) as visitor:
        done = await visitor.get(f"/api/jobs/{job}/events{query}", headers=headers)
    found = [message async for message in messages(done)]
    assert [message.id for message in found if message.kind == "message"] == [
        str(i) for i in range(first, 11)
    ]
    assert found[-1].data == {"state": "succeeded"}


async def test_w3_what_makes_no_sense_is_refused(app: Windlass) -> None:
    await app.amigrate()
    job = await app.aenqueue("t")
    async with visiting(app) as visitor:
        for path, headers, status in (
            ("/api/jobs/4711/events", {}, 404),
            ("/api/jobs/nobody/events", {}, 404),
            (f"/api/jobs/{job}/events?after=-1", {}, 400),
            (f"/api/jobs/{job}/events?after={2**63}", {}, 400),
            (f"/api/jobs/{job}/events?after={10**30}", {}, 400),
            (f"/api/jobs/{job}/events?before=1", {}, 400),
            (f"/api/jobs/{job}/events", {"last-event-id": "x"}, 400),
            (f"/api/jobs/{job}/events", {"last-event-id": str(2**63)}, 400),
        ):
            answer = await visitor.get(path, headers=headers)
            assert (answer.status_code, "error" in answer.json()) == (status, True), path
        head = await visitor.head(f"/api/jobs/{job}/events")
        assert (head.status_code, head.content) == (200, b"")


class Client:
    """One that follows a job, and reads when it is let."""

    def __init__(self) -> None:
        self.read = asyncio.Event()
        self.leave = asyncio.Event()
        self.text = b""
        self.status = 0
        self.pieces: list[int] = []

    async def follow(self, stream: JobStream, job: int, after: int = 0) -> None:
        async def receive() -> dict[str, Any]:
            await self.leave.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            if message["type"] == "http.response.start":
                self.status = message["status"]
                return
            self.pieces.append(len(message["body"]))
            await self.read.wait()
            self.text += message["body"]

        scope = {
            "type": "http",
            "method": "GET",
            "path": f"/api/jobs/{job}/events",
            "query_string": b"after=%d" % after,
            "headers": [],
            PRINCIPAL: Principal("x", Role.READ),
        }
        await stream(scope, receive, send)

    @property
    def ids(self) -> list[int]:
        return [int(line[4:]) for line in self.text.splitlines() if line.startswith(b"id: ")]


async def test_w3_one_reader_serves_many_and_a_slow_one_catches_up(app: Windlass) -> None:
    """Who does not read gets nothing more; when he reads, he gets everything."""
    async with rigged(app) as rig:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        asked = 0
        wait_stream = rig.store.wait_stream

        async def counted(*args: Any) -> Any:
            nonlocal asked
            asked += args[2] > 0
            return await wait_stream(*args)

        rig.store.wait_stream = counted  # type: ignore[assignment, method-assign]
        service = Service(app)
        stream = JobStream(service.streams, Ticker(service), longest=60.0)
        clients = [Client() for _ in range(20)]
        slow = Client()
        for client in clients:
            client.read.set()
        following = [asyncio.create_task(each.follow(stream, id)) for each in (*clients, slow)]
        after = None
        for n in range(30):
            text = json.dumps(["x" * 1000] * 100)
            (after,) = await rig.store.emit(worker, [Emits(job=job, after=after, n=100, events=text)])
            async with within(10):
                while any(len(client.ids) < 100 * (n + 1) for client in clients):  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
        assert asked <= 32
        assert len(slow.pieces) == 1
        slow.read.set()
        await rig.finish(worker, job, Kind.SUCCEEDED)
        await asyncio.gather(*following)
        for client in (*clients, slow):
            assert client.ids == list(range(1, 3001))
            assert b"event: end" in client.text
        assert max(slow.pieces) < 70_000


async def test_w3_who_begins_beyond_the_end_keeps_nobody_busy(any_app: Windlass) -> None:
    """Others who followed the same job asked the store without a pause, as long as it emitted nothing."""
    await any_app.amigrate()
    async with rigged(any_app) as rig:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        (after,) = await rig.store.emit(worker, [Emits(job=job, after=None, n=2, events='["a", "b"]')])
        waits = {2: asyncio.Event(), MAX_POSITION: asyncio.Event()}
        wait_stream = rig.store.wait_stream

        async def noted(job: int, after: int, timeout: float) -> Any:
            if timeout and after in waits:
                waits[after].set()
            return await wait_stream(job, after, timeout)

        rig.store.wait_stream = noted  # type: ignore[method-assign]
        service = Service(any_app)
        stream = JobStream(service.streams, Ticker(service), longest=60.0)
        clients = [Client() for _ in range(4)]
        following = []
        for client, start in zip(clients, (MAX_POSITION, 0, MAX_POSITION, 1), strict=True):
            client.read.set()
            following.append(asyncio.create_task(client.follow(stream, id, start)))
            async with asyncio.timeout(10):
                await waits[2 if start < 2 else MAX_POSITION].wait()
        await rig.store.emit(worker, [Emits(job=job, after=after, n=1, events='["c"]')])
        await rig.finish(worker, job)
        await asyncio.gather(*following)
    assert [client.ids for client in clients] == [[], [1, 2, 3], [], [2, 3]]
    assert all(b"event: end" in client.text for client in clients)
    assert service.streams._feeds == {}


async def test_w3_streams_of_jobs_are_bounded_and_end_with_their_readers(app: Windlass) -> None:
    await app.amigrate()
    id = (await app.aenqueue("t")).id
    service = Service(app)
    stream = JobStream(service.streams, Ticker(service), most=4, longest=60.0)
    clients = [Client(), Client()]
    for client in clients:
        client.read.set()
    following = [asyncio.create_task(each.follow(stream, id)) for each in clients]
    async with within(5):
        while not all(client.text for client in clients):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    refused = Client()
    refused.read.set()
    await refused.follow(stream, id)
    assert refused.status == 503
    for client in clients:
        client.leave.set()
    await asyncio.gather(*following)
    assert service.streams._feeds == {}


async def test_of_many_that_come_at_once_a_share_is_let_in(app: Windlass) -> None:
    """[M5] They were counted only when the store had answered each."""
    await app.amigrate()
    id = (await app.aenqueue("t")).id
    service = Service(app)
    stream = JobStream(service.streams, Ticker(service), most=6, longest=60.0)
    clients = [Client() for _ in range(15)]
    for client in clients:
        client.read.set()
    following = [asyncio.create_task(each.follow(stream, id)) for each in clients]
    async with within(5):
        while any(not client.text for client in clients):  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    assert sorted(client.status for client in clients) == [200] * 3 + [503] * 12
    for client in clients:
        client.leave.set()
    await asyncio.gather(*following)


async def test_who_does_not_read_leaves_its_place(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """[M5] It kept the place for as long as its connection stood."""
    monkeypatch.setattr(api_stream, "PATIENCE", 0.01)
    await app.amigrate()
    id = (await app.aenqueue("t")).id
    service = Service(app)
    stream = JobStream(service.streams, Ticker(service), most=1, longest=60.0)
    client = Client()
    with pytest.raises(TimeoutError):
        await client.follow(stream, id)
    assert service.streams._feeds == {}
    client.leave.set()
    client.read.set()
    await client.follow(stream, id)
    assert client.status == 200


async def test_w3_a_sealed_event_stays_sealed(app: Windlass) -> None:
    async with rigged(app) as rig:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        sealed = '{"$windlass":{"codec":"encrypted","key":"2026-01","data":"secret"}}'
        await rig.store.emit(worker, [Emits(job=job, after=None, n=2, events=sealed)])
        await rig.finish(worker, job, Kind.SUCCEEDED)
        async with visiting(app, headers=basic(READ)) as visitor:
            found = [message async for message in messages(await visitor.get(f"/api/jobs/{id}/events"))]
    assert [(each.data["value"], each.data["sealed"]) for each in found[:2]] == [
        (None, "encrypted (key 2026-01)")
    ] * 2
