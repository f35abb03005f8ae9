"""What an orchestrator's probe gets to hear [M6]."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.stopwatch import within
from windlass.errors import ConfigurationError
from windlass.worker.reports import health as module
from windlass.worker.reports.health import Health, parse_address


class Served:
    """A running server, and whether it should call itself ready."""

    def __init__(self) -> None:
        self.ready = True
        self.health = Health(lambda: (self.ready, {"processes": 2}))
        self.port = 0

    async def ask(self, request: bytes) -> tuple[int, dict[str, str], bytes]:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(request)
        await writer.drain()
        async with within(10):
            answer = await reader.read()
        writer.close()
        await writer.wait_closed()
        head, _, body = answer.partition(b"\r\n\r\n")
        status, *lines = head.decode().split("\r\n")
        return int(status.split()[1]), dict(line.split(": ") for line in lines), body

    async def get(self, path: str, method: str = "GET") -> tuple[int, Any]:
        code, _, body = await self.ask(f"{method} {path} HTTP/1.1\r\nHost: x\r\n\r\n".encode())
        return code, json.loads(body)


@pytest.fixture
async def served() -> AsyncIterator[Served]:
    served = Served()
    served.port = await served.health.start("127.0.0.1", 0)
    yield served
    await served.health.stop()


async def test_m6_alive_and_ready(served: Served) -> None:
    """[M6]"""
    assert await served.get("/healthz") == (200, {"status": "alive"})
    assert await served.get("/readyz?verbose") == (200, {"status": "ready", "processes": 2})
    served.ready = False
    assert await served.get("/readyz") == (503, {"status": "not ready", "processes": 2})
    assert (await served.get("/healthz"))[0] == 200


async def test_m6_nothing_else_is_answered(served: Served) -> None:
    """[M6]"""
    assert (await served.get("/"))[0] == 404
    assert (await served.get("/healthz", "POST"))[0] == 405


async def test_m6_head_has_no_body(served: Served) -> None:
    """[M6]"""
    code, headers, body = await served.ask(b"HEAD /healthz HTTP/1.1\r\n\r\n")
    assert (code, body) == (200, b"")
    assert int(headers["Content-Length"]) > 0


async def test_m6_hostile_and_silent_clients_hurt_nobody(
    served: Served, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[M6] Too long a head, rubbish, a client that goes away, and one that says nothing."""
    monkeypatch.setattr(module, "REQUEST_TIME", 0.05)
    for request in (b"x" * 20_000, b"\xff\xfe\r\n\r\n", b"\r\n\r\n"):
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        writer.write(request)
        with contextlib.suppress(ConnectionError):  # it may hang up on us
            async with within(10):
                await reader.read()
        writer.close()
    reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
    async with within(10):
        assert await reader.read() == b""
    writer.close()
    assert (await served.get("/healthz"))[0] == 200


async def test_a_port_that_is_taken_is_named(served: Served) -> None:
    with pytest.raises(ConfigurationError, match=f"cannot listen on 127.0.0.1:{served.port}"):
        await Health(lambda: (True, {})).start("127.0.0.1", served.port)
    await Health(lambda: (True, {})).stop()  # one that never started


def test_addresses() -> None:
    assert parse_address("0.0.0.0:80") == ("0.0.0.0", 80)  # noqa: S104 - it is only read
    assert parse_address("[::1]:8080") == ("::1", 8080)
    assert parse_address("8080") == ("127.0.0.1", 8080)
    assert parse_address(":8080") == ("127.0.0.1", 8080)
    for wrong in ("", "host", "host:", "host:70000", "1:2:x", "-1"):
        with pytest.raises(ConfigurationError, match="is no address"):
            parse_address(wrong)
