"""Processes of a chaos run, from both sides: how one is started, told to stop and awaited, and how it hears
so.

A process reads its orders as one line of JSON from standard input (no password stands in an argument list)
and works until that closes. It also closes when the test that started it dies, so no process is left behind.
"""

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any, Self, TypeVar

import msgspec

from windlass.errors import StoreUnavailable

T = TypeVar("T")
ROOT = Path(__file__).resolve().parent.parent.parent
RETRY = 0.05


class Crew:
    """The processes of a run. Leaving the block stops them all and looks at how they ended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._members: dict[str, subprocess.Popen[str]] = {}

    def start(self, program: str, orders: dict[str, Any]) -> str:
        """Start `tests.chaos.<program>` with these orders and a ledger of its own, and return its name."""
        name = f"{program}-{len(self._members)}"
        found = {**orders, "ledger": str(self.folder / f"{name}.ledger"), "seed": len(self._members)}
        member = subprocess.Popen(
            [sys.executable, "-m", f"tests.chaos.{program}"], cwd=ROOT, stdin=subprocess.PIPE, text=True
        )
        self._members[name] = member
        assert member.stdin is not None
        member.stdin.write(msgspec.json.encode(found).decode() + "\n")
        member.stdin.flush()
        return name

    async def stop(self, *names: str, within: float = 30.0) -> None:
        """Tell these, or all, to stop, and wait for them. One that ended badly fails the test."""
        members = {name: self._members[name] for name in names or self._members}
        for member in members.values():
            if member.stdin is not None:
                member.stdin.close()
        for name, member in members.items():
            code = await asyncio.to_thread(member.wait, within)
            assert code == 0, f"{name} ended with {code}"

    def alive(self) -> None:
        """Nobody has ended before being told to."""
        ended = {name: member.poll() for name, member in self._members.items() if member.poll() is not None}
        assert not ended, f"ended too early: {ended}"

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            await self.stop()
            return
        for member in self._members.values():
            member.kill()
            member.wait()
            if member.stdin is not None:
                member.stdin.close()


def orders(kind: type[T]) -> T:
    """What this process is told to do."""
    return msgspec.json.decode(sys.stdin.readline(), type=kind)


def stopped() -> asyncio.Event:
    """An event that is set when standard input closes."""
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()

    def closed() -> None:
        loop.remove_reader(sys.stdin.fileno())
        stop.set()

    loop.add_reader(sys.stdin.fileno(), closed)
    return stop


async def patiently(call: Callable[[], Awaitable[T]], stop: asyncio.Event | None = None) -> T | None:
    """Call until it is answered, as a worker does while its database is away; None: told to stop."""
    while True:
        try:
            return await call()
        except StoreUnavailable:
            if stop is not None and stop.is_set():
                return None
            await asyncio.sleep(RETRY)
