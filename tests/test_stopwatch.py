"""A stopwatch leaves out the time in which processes waited for a CPU, and not all of it."""

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Iterator

import pytest

from tests import stopwatch
from tests.stopwatch import LEAST, Stopwatch, within

counted = pytest.mark.skipif(not stopwatch.PRESSURE.exists(), reason="this kernel does not count it")


@pytest.fixture
def crowd() -> Iterator[None]:
    """More processes that only count than there are CPUs."""
    busy = [
        subprocess.Popen([sys.executable, "-c", "while True: pass"])
        for _ in range(2 * len(os.sched_getaffinity(0)))
    ]
    yield
    for each in busy:
        each.kill()
        each.wait()


@counted
@pytest.mark.usefixtures("crowd")
def test_time_on_a_busy_machine_counts_little() -> None:
    """The crowd is at work from some moment on; until then all of it may count."""
    while True:
        watch, began = Stopwatch(), time.monotonic()
        while time.monotonic() - began < 0.2:  # as a test that works
            pass
        if watch.seconds() < 0.1:
            break


def test_some_of_it_always_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    watch = Stopwatch()
    monkeypatch.setattr(stopwatch, "waited", lambda: 1e12)
    began = time.monotonic()
    while watch.seconds() < LEAST * 0.05:
        assert time.monotonic() - began < 60


def test_where_the_kernel_does_not_count_all_of_it_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stopwatch, "PRESSURE", stopwatch.PRESSURE / "nowhere")
    before = time.monotonic()
    watch = Stopwatch()
    between = time.monotonic()
    while time.monotonic() - between < 0.05:
        pass
    assert 0.05 <= watch.seconds() <= time.monotonic() - before


async def test_a_block_is_ended_by_the_stopwatch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where every second so far was one of waiting, a tenth counts."""
    monkeypatch.setattr(stopwatch, "waited", time.monotonic)
    before = time.monotonic()
    with pytest.raises(TimeoutError):
        async with within(0.05):
            await asyncio.Event().wait()
    assert time.monotonic() - before >= 0.05 / LEAST


async def test_a_block_that_is_over_in_time_passes() -> None:
    async with within(60.0):
        await asyncio.sleep(0)
