"""The server that `windlass web` runs: what comes before a request is bounded, and it ends in good order."""

import asyncio
import contextlib
import json
import logging
import resource
import threading
import time
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.stopwatch import Stopwatch, within
from tests.web.kit import READ, rigged
from windlass import Windlass
from windlass.store.records import Emits
from windlass.web.http import connection_limits, serving


@contextlib.contextmanager
def running(app: Windlass) -> Iterator[tuple[serving.Server, int]]:
    """The server in a thread, and its port."""
    server = serving.make_server(app, "127.0.0.1", 0)
    thread = threading.Thread(target=server.run)
    thread.start()
    try:
        while not server.started:
            assert thread.is_alive()
            time.sleep(0.005)
        yield server, server.servers[0].sockets[0].getsockname()[1]
    finally:
        server.should_exit = True
        thread.join()


@contextlib.asynccontextmanager
async def connected(
    port: int, by: str = "127.0.0.1"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(by, 0))
    try:
        yield reader, writer
    finally:
        writer.close()
        with contextlib.suppress(OSError):
            await writer.wait_closed()


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    """What the server says before it hangs up; it may hang up on what it has not read."""
    said = b""
    with contextlib.suppress(ConnectionError):
        async with within(5):
            while piece := await reader.read(65536):
                said += piece
    return said


async def ask(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Send a request and have its answer."""
    writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert (await reader.readuntil(b"}")).startswith(b"HTTP/1.1 200 ")


async def send(writer: asyncio.StreamWriter, piece: bytes, times: int) -> int:
    """Send until all is sent or the server has hung up; how many went out."""
    for sent in range(times):
        try:
            writer.write(piece)
            await writer.drain()
        except ConnectionError:
            return sent
    return times


@pytest.mark.parametrize(
    "piece", [b"x-%d: " % 1 + b"a" * 1000 + b"\r\n", b"a" * 1000], ids=["many headers", "one long header"]
)
async def test_headers_are_bounded(app: Windlass, piece: bytes) -> None:
    with running(app) as (_, port):
        async with connected(port) as (reader, writer):
            writer.write(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nx: ")
            hearing = asyncio.create_task(read_answer(reader))
            sent = await send(writer, piece, 50_000)
            said = await hearing
        assert sent < 50_000  # it hung up long before 50 MB
        assert said == b"" or said.startswith(b"HTTP/1.1 431 ")
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}") as visitor:
            assert (await visitor.get("/healthz", headers={"x-long": "a" * 8_000})).status_code == 200


async def test_a_head_that_is_too_large_is_told_so(app: Windlass) -> None:
    with running(app) as (_, port):
        async with connected(port) as (reader, writer):
            writer.write(b"GET /")
            await writer.drain()
            await asyncio.sleep(0.02)  # so that it comes in several pieces
            writer.write(b"a" * (connection_limits.MAX_HEAD + 1))
            assert (await read_answer(reader)).startswith(b"HTTP/1.1 431 ")


async def test_where_there_are_too_many_the_idle_ones_go(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M5] [fault 34] A thousand connections that sent nothing kept everybody else out."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 8)
    with running(app) as (server, port):
        async with contextlib.AsyncExitStack() as stack:
            first, asks = await stack.enter_async_context(connected(port))
            silent = [(await stack.enter_async_context(connected(port)))[0] for _ in range(3)]
            async with within(5):
                while len(server.server_state.connections) < 4:  # noqa: ASYNC110 - the server has its own thread
                    await asyncio.sleep(0.005)
            await asyncio.sleep(0.01)  # the server's clock counts milliseconds
            await ask(first, asks)  # it has sent something later than the others
            for _ in range(2):  # an address may have half of them, and this one has
                await ask(*await stack.enter_async_context(connected(port)))
            ends = asyncio.as_completed([read_answer(reader) for reader in silent])
            assert await next(ends) == await next(ends) == b""
            await ask(first, asks)
            # Others find room, until there are too many in all.
            for n in range(2, 7):
                await ask(*await stack.enter_async_context(connected(port, f"127.0.0.{n}")))
            assert await next(ends) == b""


def test_the_files_that_may_be_open_bound_them_too(monkeypatch: pytest.MonkeyPatch) -> None:
    """[M5] Without a file for the database nothing could be answered any more."""
    for files, most in ((1024, 512), (65_536, 1_000), (resource.RLIM_INFINITY, 1_000)):
        monkeypatch.setattr("resource.getrlimit", lambda _, files=files: (files, files))
        assert connection_limits._max_connections() == most


async def test_who_is_told_401_is_hung_up_on() -> None:
    """[M5] [fault 34]"""
    with Windlass("sqlite:///:memory:", web_read=READ) as app, running(app) as (_, port):
        async with connected(port) as (reader, writer):
            writer.write(b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{")
            assert (await read_answer(reader)).startswith(b"HTTP/1.1 401 ")


async def test_where_all_are_at_work_there_is_room_for_health(
    app: Windlass, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M5] [fault 34] `/healthz` was told that there are too many connections, and the process restarted."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 4)
    monkeypatch.setattr(connection_limits, "SPARE", 2)
    with running(app) as (_, port):
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(2):  # streams, which are at work all the time; half of what there is
                reader, writer = await stack.enter_async_context(connected(port))
                writer.write(b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
                await reader.readuntil(b"\r\n\r\n")
            for path, status in ((b"/healthz", b"200"), (b"/readyz", b"200"), (b"/", b"503")):
                reader, writer = await stack.enter_async_context(connected(port))
                writer.write(b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n" % path)
                said = await read_answer(reader)  # and it hangs up
                assert said.startswith(b"HTTP/1.1 " + status), path
                assert (b"retry-after: " in said) is (status == b"503")
            # Those who take that room for nothing go, too.
            for _ in range(4):
                await stack.enter_async_context(connected(port))
            reader, writer = await stack.enter_async_context(connected(port))
            await ask(reader, writer)
        async with within(5):
            while True:  # those who left have made room
                with contextlib.suppress(httpx.HTTPError):
                    async with httpx.AsyncClient() as visitor:
                        answer = await visitor.get(f"http://127.0.0.1:{port}/api/queues")
                    if answer.status_code == 200:
                        break


HALF_A_BODY = (
    b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\n"
    b"Content-Type: application/json\r\nContent-Length: 99\r\n\r\n{"
)


@pytest.mark.parametrize(
    "piece", [b"", b"GET /healthz HT", HALF_A_BODY], ids=["silent", "half a head", "half a body"]
)
async def test_who_sends_nothing_is_not_waited_for(
    app: Windlass, monkeypatch: pytest.MonkeyPatch, piece: bytes
) -> None:
    monkeypatch.setattr(connection_limits, "ARRIVAL", 0.05)
    monkeypatch.setattr(connection_limits, "SWEEP", 1)
    looks, look = [], connection_limits.LimitedConnection.close_if_late

    def noted(self: connection_limits.LimitedConnection, now: float) -> None:
        look(self, now)
        looks.append(now)

    monkeypatch.setattr(connection_limits.LimitedConnection, "close_if_late", noted)
    with running(app) as (_, port):
        async with connected(port) as (reader, writer):
            writer.write(piece)
            assert await read_answer(reader) == b""
        async with connected(port) as (reader, writer):
            await ask(reader, writer)  # one that waits between two requests is waited for
            answered = time.monotonic()
            async with within(5):
                while looks[-1] - answered < 2 * connection_limits.ARRIVAL:  # noqa: ASYNC110 - the server has its own thread
                    await asyncio.sleep(0.005)
            await ask(reader, writer)


async def look(connection: connection_limits.LimitedConnection, now: float) -> None:
    """Have the server look for what is late, as if it were that time."""

    async def close_if_late() -> None:
        connection.close_if_late(now)

    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(close_if_late(), connection.loop))


async def test_who_does_not_read_is_given_up(app: Windlass, monkeypatch: pytest.MonkeyPatch) -> None:
    """[M5] A slow one is not, as long as it reads. It held its connection, and its stream, for ever."""
    monkeypatch.setattr(connection_limits, "SWEEP", 1 << 60)
    async with rigged(app) as rig:
        worker = await rig.worker()
        (id,) = await rig.add("t")
        job = await rig.run(worker, id)
        text, after = json.dumps(["x" * 10_000] * 100), None
        for _ in range(20):  # 20 MB, more than the kernel takes for a client
            (after,) = await rig.store.emit(worker, [Emits(job=job, after=after, n=100, events=text)])
    with running(app) as (server, port):
        async with connected(port) as (reader, writer):
            writer.write(b"GET /api/jobs/%d/events HTTP/1.1\r\nHost: localhost\r\n\r\n" % id)
            async with within(10):
                while not server.server_state.connections:  # noqa: ASYNC110 - the server has its own thread
                    await asyncio.sleep(0.005)
                (connection,) = server.server_state.connections
                assert isinstance(connection, connection_limits.LimitedConnection)
                unread = connection.transport.get_write_buffer_size
                while not unread():  # noqa: ASYNC110 - the server has its own thread
                    await asyncio.sleep(0.005)
                now = connection.loop.time()
                await look(connection, now + 20.0)
                while connection._read < now + 28.0:
                    assert await reader.read(65536)
                    await look(connection, now + 28.0)
                await look(connection, now + 57.0)
                assert not connection.transport.is_closing()
                await look(connection, now + 59.0)
                while server.server_state.connections:  # noqa: ASYNC110 - the server has its own thread
                    await asyncio.sleep(0.005)


@pytest.mark.slow
async def test_open_streams_do_not_keep_it_from_stopping(
    app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    request = b"GET /api/stream HTTP/1.1\r\nHost: localhost\r\n\r\n"
    async with contextlib.AsyncExitStack() as stack:
        with caplog.at_level(logging.WARNING), running(app) as (server, port):
            streams = []
            for _ in range(3):
                reader, writer = await stack.enter_async_context(connected(port))
                writer.write(request)
                await reader.readuntil(b"event: tick")
                streams.append(reader)
            watch = Stopwatch()
            server.should_exit = True
            ends = await asyncio.gather(*map(read_answer, streams))
        assert watch.seconds() < serving.SHUTDOWN_TIME / 2
        assert all(end.endswith(b"0\r\n\r\n") for end in ends)
    assert not caplog.records
