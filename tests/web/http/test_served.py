"""Over real HTTP: refusals with Retry-After [F4] [F5], streams, and the command that serves it all [M5]."""

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from click.testing import CliRunner

from tests.stopwatch import within
from tests.web.kit import OPERATE, READ, bearer, served
from windlass import Windlass
from windlass.cli import main
from windlass.web.api.stream import Stream
from windlass.web.app import make_web
from windlass.web.service.service import Service
from windlass.web.service.ticker import Ticker


@pytest.fixture(params=["sqlite"])
def kept(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path.as_posix()}/jobs.db"


def test_a_full_queue_is_429_and_shedding_is_503(kept: str) -> None:
    with Windlass(kept) as app, served(app) as address, httpx.Client(base_url=address) as visitor:
        visitor.put("/api/queues/small", json={"max_depth": 3})
        visitor.put("/api/queues/busy", json={"shed_depth": 1})
        for queue in ("small", "small", "small", "busy"):
            assert visitor.post("/api/jobs", json={"task": "a", "queue": queue}).status_code == 201
        full = visitor.post("/api/jobs", json={"task": "a", "queue": "small"})
        shed = visitor.post("/api/jobs", json={"task": "a", "queue": "busy"})
        many = visitor.post("/api/jobs/batch", json={"jobs": [{"task": "a", "queue": "small"}] * 2})
        assert (full.status_code, full.json()["error"]["code"]) == (429, "queue_full")
        assert (shed.status_code, shed.json()["error"]["code"]) == (503, "shed")
        assert many.status_code == 429
        for answer in (full, shed, many):
            assert int(answer.headers["retry-after"]) >= 1
        urgent = visitor.post("/api/jobs", json={"task": "a", "queue": "busy", "priority": "urgent"})
        assert urgent.status_code == 201


def test_bodies_in_pieces_are_bounded_too(kept: str) -> None:
    with Windlass(kept) as app, served(app) as address, httpx.Client(base_url=address) as visitor:
        kind = {"content-type": "application/json"}
        answer = visitor.post("/api/jobs", content=(b" " * 1_000_000 for _ in range(9)), headers=kind)
        assert (answer.status_code, answer.json()["error"]["code"]) == (413, "too_large")


async def ticks(answer: httpx.Response) -> AsyncIterator[dict[str, Any]]:
    """The ticks of a stream."""
    kind = ""
    async for line in answer.aiter_lines():
        if line.startswith("event: "):
            kind = line.removeprefix("event: ")
        if line.startswith("data: ") and kind == "tick":
            yield json.loads(line.removeprefix("data: "))


async def test_a_stream_ticks_and_says_what_changed(kept: str) -> None:
    with Windlass(kept) as app, served(app, read=[READ], operate=[OPERATE]) as address:
        async with httpx.AsyncClient(base_url=address, headers=bearer(READ)) as visitor:
            async with visitor.stream("GET", "/api/stream") as answer:
                assert answer.headers["content-type"].startswith("text/event-stream")
                found = ticks(answer)
                first = await anext(found)
                assert (first["healthy"], first["ready"]) == ("ok", 0)
                await app.aenqueue("a")
                async with within(5):
                    while (last := await anext(found))["ready"] != 1:
                        pass
                assert last["at"] > first["at"]
            stranger = await visitor.get("/api/stream", headers={"authorization": "Bearer nobody"})
            assert stranger.status_code == 401


async def opened(stream: Stream, *, stay: asyncio.Event, name: str = "x") -> list[dict[str, Any]]:
    """What one who watches is sent until they leave."""
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        await stay.wait()
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        await asyncio.sleep(0)  # others have their turn
        sent.append(message)

    from windlass.operations.principal import Principal, Role
    from windlass.web.http.guard import PRINCIPAL

    scope = {"type": "http", "method": "GET", "query_string": b"", PRINCIPAL: Principal(name, Role.READ)}
    await stream(scope, receive, send)
    return sent


async def test_streams_are_bounded_and_one_look_serves_all(app: Windlass) -> None:
    ticker = Ticker(Service(app), every=0.01)
    stream = Stream(ticker, most=4, longest=60.0)
    leave = asyncio.Event()
    watching = [asyncio.create_task(opened(stream, stay=leave)) for _ in range(2)]
    await ticker.after(2)
    (refused, _) = await opened(stream, stay=leave)
    assert refused["status"] == 503
    assert (b"retry-after", b"10") in refused["headers"]
    leave.set()
    seen = await asyncio.gather(*watching)
    assert all(len(messages) > 2 for messages in seen)
    number = ticker.number
    await asyncio.sleep(0.05)
    assert ticker.number == number  # nobody watches, so nobody looks


async def test_of_many_that_come_at_once_a_share_is_let_in(app: Windlass) -> None:
    """[M5] One principal has half of the streams; they were counted too late."""
    ticker = Ticker(Service(app), every=60.0)
    stream = Stream(ticker, most=6, longest=60.0)
    leave, leave_again = asyncio.Event(), asyncio.Event()
    crowd = [asyncio.create_task(opened(stream, stay=leave, name="crowd")) for _ in range(15)]
    async with within(5):
        while sum(each.done() for each in crowd) < 12:  # noqa: ASYNC110
            await asyncio.sleep(0.005)
    refused = [each for each in crowd if each.done()]
    others = [asyncio.create_task(opened(stream, stay=leave, name=f"{n}")) for n in range(3)]
    await asyncio.sleep(0)
    (none_left, _) = await opened(stream, stay=leave, name="late")
    await ticker.after(0)  # no look is under way when they leave
    leave.set()
    assert none_left["status"] == 503
    assert {each.result()[0]["status"] for each in refused} == {503}
    assert b"3 streams of crowd are open already" in refused[0].result()[1]["body"]
    seen = await asyncio.gather(*others, *(each for each in crowd if each not in refused))
    assert [messages[0]["status"] for messages in seen] == [200] * 6
    again = asyncio.create_task(opened(stream, stay=leave_again, name="crowd"))
    await ticker.after(ticker.number)
    leave_again.set()
    assert (await again)[0]["status"] == 200


async def test_a_head_of_a_stream_is_answered_at_once(visitor: httpx.AsyncClient) -> None:
    """Nobody reads what follows it, so none is opened."""
    for _ in range(3):
        async with within(1):
            answer = await visitor.head("/api/stream")
        assert (answer.status_code, answer.content) == (200, b"")
        assert answer.headers["content-type"].startswith("text/event-stream")


@pytest.mark.parametrize("path", ["/api/stream", "/api/jobs/1/events", "/api/openapi.json"])
async def test_what_is_only_to_be_looked_at(visitor: httpx.AsyncClient, path: str) -> None:
    answer = await visitor.post(path)
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, HEAD")
    assert answer.json()["error"]["code"] == "method_not_allowed"


async def test_a_stream_ends_by_itself(app: Windlass) -> None:
    stream = Stream(Ticker(Service(app), every=0.01), longest=0.05)
    messages = await opened(stream, stay=asyncio.Event())
    assert messages[-1] == {"type": "http.response.body", "body": b"", "more_body": False}


# -- windlass web -------------------------------------------------------------------------------------------


def test_it_does_not_listen_to_strangers_without_credentials(kept: str) -> None:
    result = CliRunner().invoke(main, ["web", "--host", "10.0.0.7", "--database", kept])
    assert result.exit_code == 1
    assert "WINDLASS_WEB_OPERATE" in result.output


def test_a_bad_credential_is_refused_unseen(kept: str) -> None:
    result = CliRunner().invoke(main, ["web", "--database", kept], env={"WINDLASS_WEB_READ": "ada:pssst"})
    assert result.exit_code == 1
    assert "pssst" not in result.output


def test_the_command_serves_and_stops_in_good_order(kept: str) -> None:
    Windlass(kept).migrate()
    command = [sys.executable, "-m", "windlass", "web", "--port", "0", "--database", kept]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        address = line.partition(" on ")[2].partition(" ")[0]
        assert httpx.get(f"{address}readyz").json() == {"ok": True}
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


def test_it_is_served_without_a_life_of_its_own(pg_dsn: str) -> None:
    """Mounted, or under a server that knows no lifespan: calls hop to the process's own loop."""
    with Windlass(pg_dsn) as app:
        web = make_web(app)

        async def visit() -> int:
            transport = httpx.ASGITransport(app=web, client=("127.0.0.1", 1))
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost") as visitor:
                await visitor.post("/api/jobs", json={"task": "a"})
                await visitor.get("/api/overview")
                return len((await visitor.get("/api/jobs")).json()["jobs"])

        assert [asyncio.run(visit()) for _ in range(2)] == [1, 2]
