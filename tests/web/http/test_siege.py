"""[fault 34] Silent connections, slow requests and wrong passwords, from one address and from many. Health
answers, operators get in, guesses are throttled and logged [M5]."""

import asyncio
import contextlib
import itertools
import logging
import resource
from collections import Counter
from collections.abc import AsyncIterator, Iterator

import httpx
import pytest

from tests.stopwatch import Stopwatch
from tests.web.http.test_serving import connected, running
from tests.web.kit import OPERATE, basic, bearer
from windlass import Windlass
from windlass.web.http import connection_limits
from windlass.web.http.login_throttle import MAX_FAILURES

GUESSERS, TRIES = 20, 3
SOON = 5.0
"""Seconds in which an answer must come, on a machine that does other things, too."""


@pytest.fixture
def many_files() -> Iterator[None]:
    """Both ends of every connection are in this process."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(8_192, before[1]), before[1]))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


@contextlib.asynccontextmanager
async def holding(port: int, addresses: list[str], piece: bytes = b"") -> AsyncIterator[None]:
    """A connection from each address that sends a piece of a request and no more."""
    async with contextlib.AsyncExitStack() as stack:
        for start in range(0, len(addresses), 50):
            some = await asyncio.gather(
                *(
                    asyncio.open_connection("127.0.0.1", port, local_addr=(by, 0))
                    for by in addresses[start : start + 50]
                )
            )
            for _, writer in some:
                stack.callback(writer.close)
                writer.write(piece)
        yield


async def guess(port: int, n: int) -> list[int]:
    """Wrong guesses from an address, one after the other; how they were answered, 0 where one was not."""
    pair = basic(f"{'driver' if n % 2 else 'made-up'}:wrong-{n}")["authorization"].encode()
    answers = []
    for _ in range(TRIES):
        status = 0
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            async with connected(port, f"127.3.0.{n + 1}") as (reader, writer):
                writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nAuthorization: %s\r\n\r\n" % pair)
                status = int((await reader.readuntil(b"\r\n"))[9:12])
        answers.append(status)
    return answers


async def answered(port: int, path: str, by: str, headers: dict[str, str] | None = None) -> None:
    """Somebody new asks and has their answer soon."""
    watch = Stopwatch()
    transport = httpx.AsyncHTTPTransport(local_address=by)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://127.0.0.1:{port}") as visitor:
        answer = await visitor.get(path, headers=headers, timeout=SOON)
    assert (answer.status_code, path) == (200, path)
    assert watch.seconds() < SOON


@pytest.mark.parametrize("crowd", ["one address", "many addresses"])
async def test_a_siege_keeps_nobody_out(
    crowd: str, many_files: None, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[fault 34] The short form, with room for fewer."""
    monkeypatch.setattr(connection_limits, "MAX_CONNECTIONS", 200)
    await siege(crowd, 200, caplog)


@pytest.mark.soak
@pytest.mark.parametrize("crowd", ["one address", "many addresses"])
async def test_a_siege_by_a_thousand(crowd: str, many_files: None, caplog: pytest.LogCaptureFixture) -> None:
    """[fault 34]"""
    await siege(crowd, 1_000, caplog)


async def siege(crowd: str, n: int, caplog: pytest.LogCaptureFixture) -> None:
    """So many silent connections, slow requests and wrong guesses, all at once."""
    silent = ["127.0.9.9" if crowd == "one address" else f"127.1.{i // 250}.{i % 250 + 1}" for i in range(n)]
    slow = [f"127.2.0.{i + 1}" for i in range(50)]
    with Windlass("sqlite:///:memory:", web_operate=OPERATE) as app, running(app) as (_, port):
        async with (
            holding(port, silent),
            holding(port, slow, b"GET / HTTP/1.1\r\nHost: loc"),
            holding(port, slow, b"POST /api/jobs HTTP/1.1\r\nHost: localhost\r\nContent-Length: 99\r\n\r\n{"),
        ):
            with caplog.at_level(logging.WARNING, "windlass.web"):
                guesses = asyncio.gather(*(guess(port, n) for n in range(GUESSERS)))
                for by in ("127.0.0.1", "127.0.9.9", "127.3.0.1"):
                    await answered(port, "/healthz", by)
                    await answered(port, "/readyz", by)
                await answered(port, "/", "127.0.0.1", bearer(OPERATE))
                await answered(port, "/api/queues", "127.0.9.9", basic(OPERATE))
                answers = Counter(itertools.chain(*await guesses))
            await answered(port, "/", "127.0.0.1", bearer(OPERATE))
    assert set(answers) <= {0, 401, 429}
    assert answers[401] <= 2 * MAX_FAILURES  # two names
    assert answers[429] > answers[401]
    message = "\n".join(record.getMessage() for record in caplog.records)
    assert "a login failed: wrong credentials for 'driver', from 127.3.0." in message
    assert "wrong credentials are throttled" in message
    assert "wrong-" not in message
    assert len(caplog.records) < 40
