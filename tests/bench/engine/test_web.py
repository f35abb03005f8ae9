"""`python -m bench engine web`: how its figures are worked out, and once the whole of it."""

import asyncio
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from bench.__main__ import bench as command
from bench.engine.figures import Taken, Where
from bench.engine.rounds import Rounds, Step
from bench.engine.web.client import Line, get, post
from bench.engine.web.load import Times, Views
from bench.engine.web.plan import WebPlan, make_web_plan
from bench.engine.web.report import ALONE, BATCH, RATIO, SINGLE, SLOWEST, VIEWED, report, spread
from bench.meters import Meter
from tests.stopwatch import within

RATES = {ALONE, VIEWED, SINGLE, BATCH}
AIMS = [SLOWEST, RATIO, SINGLE, BATCH]
TINY = {"jobs": 60, "seconds": 0.2, "rounds": 1, "tries": 1}
WHERE = Where(store="sqlite", place="here", versions={}, settings={}, seconds=1.0)


def bench(*arguments: str) -> Result:
    return CliRunner().invoke(command, ["engine", "web", "--store", "sqlite", *arguments])


@pytest.mark.slow
def test_the_whole_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    sizes = [word for name, value in TINY.items() for word in (f"--{name}", str(value))]
    result = bench("--quick", "--json", *sizes)
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    assert {name: found["plan"][name] for name in TINY} == TINY
    [store] = found["stores"]
    assert store["store"] == "sqlite"
    assert set(store["rates"]) == RATES
    assert [aim["figure"] for aim in store["aims"]] == AIMS
    assert {"/", "/jobs", "/api/jobs", "/metrics"} <= set(store["pages"])
    assert all(page["tries"] == 1 for page in store["pages"].values())
    assert not [note for note in store["notes"] if "answered" in note or "refused" in note]
    assert list(tmp_path.iterdir()) == []


def test_it_needs_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    result = bench()
    assert result.exit_code == 1
    assert ".[bench]" in result.output


def test_a_run_has_a_million_jobs_in_store_and_a_small_one_some_of_each_kind() -> None:
    assert (make_web_plan().jobs, make_web_plan().ready) == (1_000_000, 50_000)
    small = make_web_plan(jobs=100)
    assert small.ready == 5
    assert min(small.scheduled, small.dead, small.retrying, small.running, small.parts) >= 1


def test_percentiles_are_of_the_times_in_order() -> None:
    found = spread([float(ms) for ms in reversed(range(100))])
    assert (found.p50, found.p95, found.p99, found.worst, found.tries) == (50, 95, 99, 99, 100)
    assert spread([7.0]).p99 == 7


async def test_aims_are_judged_by_the_slowest_page_and_by_pairs() -> None:
    rounds = Rounds(WebPlan(rounds=2), Meter(), 2.0**40, lambda text: None)
    speeds = {ALONE: 100, VIEWED: 90, SINGLE: 4000, BATCH: 40_000}

    def step(name: str) -> Step:
        async def run() -> Taken:
            return Taken(speeds[name], 1.0)

        return Step(run)

    async def slower() -> None:
        speeds[ALONE] = 90

    await rounds.run([{name: step(name)} for name in speeds], after_each=slower)
    times = Times({"/": [5.0], "/jobs": [101.0]}, {"/jobs": 503})
    views = [Views(pages=4, messages=0, refused=1)]
    found = report(rounds, times, views, WHERE)
    assert found.ratios[RATIO].rounds == [0.9, 1.0]
    assert [(aim.figure, aim.met) for aim in found.aims] == list(
        zip(AIMS, (False, True, True, False), strict=True)
    )
    message = "\n".join(found.notes)
    for words in ("/jobs answered 503", "1 of 4 refreshes", "sent nothing"):
        assert words in message


async def test_the_client_reads_answers_in_pieces_chunks_and_streams() -> None:
    served: set[asyncio.Task[None] | None] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        served.add(asyncio.current_task())
        while head := await reader.read(1000):
            path = head.split()[1]
            if path == b"/pieces":
                pieces = [b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n", b"\r\nab", b"cd"]
            elif path == b"/chunks":
                pieces = [
                    b"HTTP/1.1 404 Not Found\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nab\r\n",
                    b"0\r\n\r\n",
                ]
            elif path == b"/stream":
                pieces = [b"HTTP/1.1 200 OK\r\n\r\nevent: tick\ndata: 1\n\n", b"event: tick\ndata: 2\n\n"]
            else:
                break
            for piece in pieces:
                writer.write(piece)
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    line = await Line.open("127.0.0.1", port)
    assert await line.ask(get("/pieces")) == (200, b"abcd")
    assert (await line.ask(get("/chunks"))).status == 404
    with pytest.raises(ConnectionError):
        await line.ask(post("/hang-up", b"{}"))
    stream = await Line.open("127.0.0.1", port)
    stream.listen(get("/stream"))
    async with within(5):
        while stream.received < 2:  # noqa: ASYNC110 - counted by the protocol
            await asyncio.sleep(0.001)
    stream.close()
    server.close()
    await server.wait_closed()
    await asyncio.gather(*(task for task in served if task is not None))
