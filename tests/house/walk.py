"""Which modules of the package a job passes from its enqueue to its outcome, seen by running some.

A worker is up and idle, and one job after another goes through it. A module is passed when one of its
functions is handed the job, returns it, or calls one that does: its payload, or something that holds it,
such as a record, a run or a context. Chores (heartbeats, reports, waiting for work) and helpers that never
see a job do not count. What every job passes is on the way; what only some meet is not.
"""

import asyncio
import sys
from collections import deque
from types import FrameType
from typing import Any, Final

import msgspec

from tests.postgres import Server
from windlass import Windlass
from windlass.store.postgres import PostgresStore

JOBS: Final = 5
ANSWERED: Final = 0.1
"""Seconds after which a worker knows that an outcome was written, and is idle again."""

HOLDERS: Final = ("job", "_job", "jobs", "payload")
"""Attributes by which objects hold a job, or many."""

DEPTH: Final = 4


def passed() -> list[str]:
    """The modules by order of first use, for jobs on PostgreSQL, run in this process."""
    with Server(fsync=False) as server:
        return asyncio.run(_walk(server.dsn(server.create_database())))


async def _walk(url: str) -> list[str]:
    await PostgresStore(url).migrate()
    walks: list[dict[str, None]] = []
    marker = ""

    def note(frame: FrameType, event: str, argument: Any) -> None:
        if event not in ("call", "return") or not _name(frame):
            return
        values = [argument] if event == "return" else list(frame.f_locals.values())
        if any(_holds(value, marker) for value in values):
            caller: FrameType | None = frame
            chain = []
            while caller is not None:
                chain.append(_name(caller))
                caller = caller.f_back
            walks[-1].update(dict.fromkeys(name for name in reversed(chain) if name))

    async with Windlass(url) as app:

        @app.task(name="house.walk")
        async def walk(marker: str) -> None:
            del marker

        async with app.worker(queues=["default"]):
            for n in range(JOBS + 1):
                marker = f"<job {n} of the walk>"
                walks.append({})
                sys.setprofile(note)
                job = await walk.aenqueue(marker)
                await asyncio.to_thread(job.result)  # in another thread, where nothing is noted
                await asyncio.sleep(ANSWERED)
                sys.setprofile(None)
    del walks[0]  # what happens once, happens for the first
    return [name for name in walks[0] if all(name in each for each in walks)]


def _name(frame: FrameType) -> str:
    """The module that a frame runs, where it is one of the package's."""
    name = str(frame.f_globals.get("__name__", ""))
    return name if name.startswith("windlass.") else ""


def _holds(value: Any, marker: str, depth: int = DEPTH) -> bool:
    """Whether this is the job of the marker, or holds it."""
    if isinstance(value, str | bytes):
        return marker in (value if isinstance(value, str) else value.decode(errors="replace"))
    inside: list[Any] = []
    if isinstance(value, dict):
        inside = list(value.values())
    elif isinstance(value, list | tuple | set | deque):
        inside = list(value)
    elif type(value).__module__.startswith("windlass."):
        fields = value.__struct_fields__ if isinstance(value, msgspec.Struct) else HOLDERS
        inside = [getattr(value, each, None) for each in fields]
    return depth > 0 and any(_holds(each, marker, depth - 1) for each in inside)
