"""Warm child processes that speak one JSON line each way, and what happens to those that do not [K8]."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator

import psutil
import pytest

from tests.worker.handlers.process_groups import members, until_gone
from windlass.errors import ConfigurationError, PoolError
from windlass.worker.handlers import pool as pool_module
from windlass.worker.handlers.pool import WarmPool

PROGRAM = r"""
import json, os, subprocess, sys, time
served = 0
def say(text):
    sys.stdout.write(text)
    sys.stdout.flush()
for line in sys.stdin:
    request = json.loads(line)
    served += 1
    match request["do"]:
        case "echo": say(json.dumps(request["value"]) + "\n")
        case "who": say(json.dumps([os.getpid(), served]) + "\n")
        case "die": sys.stderr.write("last " * 10_000 + "words\n"); sys.exit(3)
        case "shout": sys.stderr.write("shouted\n"); say("1\n")
        case "garbage": say("no json\n")
        case "half": say('{"half": '); sys.exit(0)
        case "twice": say("1\n2\n")
        case "endless":
            while True: say("x" * 65536)
        case "close": os.close(1); time.sleep(1000)
        case "hang":
            subprocess.Popen(["sleep", "1000"])
            sys.stderr.write("hanging\n"); sys.stderr.flush()
            time.sleep(1000)
time.sleep(float(os.environ.get("LINGER", "0")))
"""
ARGV = [sys.executable, "-I", "-S", "-c", PROGRAM]


@pytest.fixture
async def pool() -> AsyncIterator[WarmPool]:
    pool = WarmPool(ARGV, size=1)
    yield pool
    await pool.close()


async def who(pool: WarmPool) -> tuple[int, int]:
    pid, served = await pool.call({"do": "who"})
    return pid, served


async def test_as_a_block() -> None:
    async with WarmPool(ARGV, size=1) as pool:
        child, _ = await who(pool)
    assert not psutil.pid_exists(child)
    with pytest.raises(PoolError, match="is closed"):
        await who(pool)


async def test_k8_a_child_stays_warm_and_leads_its_own_group(pool: WarmPool) -> None:
    first, served = await who(pool)
    assert served == 1
    assert await who(pool) == (first, 2)
    assert os.getpgid(first) == os.getsid(first) == first
    assert await pool.call({"do": "echo", "value": {"a": [1, "ü\n", None]}}) == {"a": [1, "ü\n", None]}


async def test_a_line_may_be_long_both_ways(pool: WarmPool) -> None:
    text = "ü" * 2_000_000
    assert await pool.call({"do": "echo", "value": text}) == text


async def test_at_most_size_children_are_started() -> None:
    pool = WarmPool(ARGV, size=2)
    answers = await asyncio.gather(*(who(pool) for _ in range(10)))
    assert len({pid for pid, _ in answers}) == 2
    assert sorted(served for _, served in answers)[-1] >= 5
    await pool.close()
    for pid, _ in answers:
        assert not members(pid)


async def test_k8_a_child_that_dies_is_told_of_and_replaced(pool: WarmPool) -> None:
    first, _ = await who(pool)
    with pytest.raises(PoolError, match="ended with code 3 before it answered") as raised:
        await pool.call({"do": "die"})
    assert raised.value.stderr.endswith("last words\n")
    assert len(raised.value.stderr) == pool_module.KEPT_STDERR
    assert len(str(raised.value)) < 2_000
    assert str(raised.value).endswith("last words")
    again, served = await who(pool)
    assert again != first
    assert served == 1


async def test_a_child_that_died_while_idle_fails_nobody(pool: WarmPool) -> None:
    first, _ = await who(pool)
    (child,) = pool._children
    os.kill(first, signal.SIGKILL)
    await child._stdout._ended.wait()
    assert (await who(pool))[1] == 1


@pytest.mark.parametrize(
    ("do", "says"),
    [
        ("garbage", "answered b'no json', which is no JSON"),
        ("half", "ended with code 0 before it answered"),
        ("close", "closed its output before it answered"),
    ],
)
async def test_k8_a_child_that_answers_wrongly_is_replaced(pool: WarmPool, do: str, says: str) -> None:
    first, _ = await who(pool)
    with pytest.raises(PoolError, match=says):
        await pool.call({"do": do})
    assert not members(first)
    assert (await who(pool))[1] == 1


async def test_an_answer_without_end_is_cut_off(pool: WarmPool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "MAX_LINE", 1_000_000)
    with pytest.raises(PoolError, match="a line of more than 1,000,000 bytes"):
        await pool.call({"do": "endless"})
    with pytest.raises(PoolError, match="is too long"):
        await pool.call({"do": "echo", "value": "x" * 1_000_000})
    assert (await who(pool))[1] == 1


async def test_a_child_that_says_too_much_serves_nobody_else(pool: WarmPool) -> None:
    first, _ = await who(pool)
    assert await pool.call({"do": "twice"}) == 1
    again, _ = await who(pool)
    assert again != first


async def test_stderr_is_handed_on_as_it_comes() -> None:
    heard = asyncio.Queue[bytes]()
    pool = WarmPool(ARGV, size=1, echo=heard.put_nowait)
    assert await pool.call({"do": "shout"}) == 1
    assert await heard.get() == b"shouted\n"
    await pool.close()


async def test_k8_on_timeout_the_whole_group_is_killed(pool: WarmPool) -> None:
    first, _ = await who(pool)
    with pytest.raises(TimeoutError, match=r"gave no answer within 0\.2 s"):
        await pool.call({"do": "hang"}, timeout=0.2)
    assert not psutil.pid_exists(first)  # reaped, too
    await until_gone(first)
    assert (await who(pool))[1] == 1


async def test_k8_on_cancel_the_whole_group_is_killed() -> None:
    heard = asyncio.Event()
    pool = WarmPool(ARGV, size=1, echo=lambda _: heard.set())
    first, _ = await who(pool)
    call = asyncio.create_task(pool.call({"do": "hang"}))
    await heard.wait()
    assert len(members(first)) == 2
    call.cancel()
    await asyncio.sleep(0)
    call.cancel()  # the impatient must not leave the child unreaped either
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not psutil.pid_exists(first)
    await until_gone(first)
    assert (await who(pool))[1] == 1
    await pool.close()


async def test_a_call_that_waits_for_a_child_can_be_cancelled(pool: WarmPool) -> None:
    first, _ = await who(pool)
    async with pool._slots:
        waiting = asyncio.create_task(who(pool))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
    assert await who(pool) == (first, 2)


async def test_an_idle_child_is_let_go() -> None:
    pool = WarmPool(ARGV, size=1, idle=0.05)
    first, _ = await who(pool)
    await until_gone(first)
    assert (await who(pool))[1] == 1
    await pool.close()


async def test_close_cuts_off_who_works_and_refuses_who_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "LEAVE", 0.1)
    heard = asyncio.Event()
    pool = WarmPool(ARGV, size=2, echo=lambda _: heard.set())
    (busy, _), (idle, _) = await asyncio.gather(who(pool), who(pool))
    call = asyncio.create_task(pool.call({"do": "hang"}))
    await heard.wait()
    await pool.close()
    with pytest.raises(PoolError, match="its pool was closed"):
        await call
    with pytest.raises(PoolError, match="is closed; make a new one"):
        await who(pool)
    await until_gone(busy)
    await until_gone(idle)
    await pool.close()


async def test_close_kills_who_does_not_leave(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool_module, "LEAVE", 0.1)
    pool = WarmPool(ARGV, size=1, env={"LINGER": "1000"})
    first, _ = await who(pool)
    await pool.close()
    assert not members(first)


async def test_a_program_that_is_not_there_is_named() -> None:
    pool = WarmPool(["/nowhere/to/be/found"], size=1)
    for _ in range(2):
        with pytest.raises(PoolError, match="`/nowhere/to/be/found` cannot be started"):
            await pool.call(1)
    await pool.close()
    with pytest.raises(ConfigurationError, match="at least 1"):
        WarmPool(ARGV, size=0)


def test_it_works_on_uvloop() -> None:
    uvloop = pytest.importorskip("uvloop")

    async def main() -> None:
        pool = WarmPool(ARGV, size=1)
        first, _ = await who(pool)
        with pytest.raises(TimeoutError):
            await pool.call({"do": "hang"}, timeout=0.1)
        await until_gone(first)
        text = "x" * 1_000_000
        assert await pool.call({"do": "echo", "value": text}) == text
        await pool.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())
