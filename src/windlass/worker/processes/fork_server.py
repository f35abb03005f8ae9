"""The supervisor's side of a fork server: a process that has imported the app, and forks children of it in
milliseconds. See `fork_server_program` for what it does.

There is one while the supervisor works: one that dies is replaced, and so is one with the code of before.
Where it cannot be forked, children are started anew, one by one: a program each, with imports of its own.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
import socket
import subprocess
import sys
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from windlass.running.process_group import ending, exited, to_the_end
from windlass.worker.engine.waiting import first
from windlass.worker.processes.adoption import Adopted, adopting
from windlass.worker.processes.child_run import RESTARTS, ChildRun
from windlass.worker.processes.fork_server_messages import FORK, Forked, Loaded

logger: Final = logging.getLogger("windlass.worker")
T = TypeVar("T")
FORK_TIME: Final = 10.0
"""Seconds that a fork server may take to fork. One that takes longer was stopped, and is replaced."""
LONGEST: Final = 2**16
PROGRAM: Final = "windlass.worker.processes.fork_server_program"


class ForkServerGone(Exception):
    """The fork server ended, or was ended, while it was asked to fork. What it may have forked has nobody to
    talk to, and leaves: try again, with a channel of its own."""


class ForkServer:
    """Keeps a fork server, and has it fork. With `forks` False there is none, and no child is forked."""

    def __init__(self, address: str, environment: Mapping[str, str], *, forks: bool) -> None:
        self._address = address
        self._environment = environment
        self._forks = forks
        self._process: subprocess.Popen[bytes] | None = None
        self._line: socket.socket | None = None
        self._settled = asyncio.Event()
        """Either there is a fork server at the other end of the line, or children are started anew for
        now."""
        self._turn = asyncio.Lock()
        self._renewed = asyncio.Event()

    async def fork(self, end: socket.socket, status_memory: int) -> Adopted | None:
        """A child that has loaded the app, with these two as its own; None: start one anew. Waits until the
        app is loaded. Raises ForkServerGone, and OSError where the system has no room for a process."""
        while True:
            await self._settled.wait()
            async with self._turn:
                if not self._settled.is_set():
                    continue
                if self._line is None:
                    return None
                asking = asyncio.ensure_future(self._ask(self._line, end, status_memory))
                try:
                    return await asyncio.shield(asking)
                except asyncio.CancelledError:
                    await to_the_end(_undo(asking))
                    raise

    async def _ask(self, line: socket.socket, end: socket.socket, status_memory: int) -> Adopted:
        answer: Forked | None = None
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(FORK_TIME):
                with adopting():
                    socket.send_fds(line, [FORK], [end.fileno(), status_memory])
                    answer = await _receive(line, Forked)
        if answer is not None and not answer.pid:
            raise OSError(answer.error)
        child = None if answer is None else Adopted(answer.pid)
        if child is not None and child.is_ours:
            return child
        if child is not None:
            logger.warning("processes are started anew, not forked: process %d was not adopted", child.pid)
            self._forks = False
        self._give_up()
        raise ForkServerGone

    def renew(self) -> None:
        """The code has changed: who forks from now on has to load it first."""
        before, self._renewed = self._renewed, asyncio.Event()
        before.set()
        if self._forks:
            self._give_up()

    def _give_up(self) -> None:
        """End this one; no child is forked before it is replaced."""
        self._settled.clear()
        if self._process is not None:
            self._process.kill()

    # -- keeping one --------------------------------------------------------------------------------------

    async def run(self) -> None:
        """Keep one, until cancelled; or none, where that cannot be."""
        try:
            if self._forks:
                with adopting():
                    pass
            await self._keep()
        except OSError as error:
            logger.warning("processes are started anew, not forked: they cannot be adopted: %s", error)
        except Exception:
            logger.exception("processes are started anew, not forked")
        self._forks = False
        self._settled.set()

    async def _keep(self) -> None:
        failures = 0
        while self._forks:
            renewed, run = self._renewed, ChildRun(failures)
            try:
                loaded = await self._one(renewed)
            except OSError as error:
                logger.error("cannot start a fork server: %s", error)
                loaded = None
            if renewed.is_set():
                failures = 0
            elif loaded is not None and loaded.refusal:
                self._settled.set()
                await renewed.wait()
            else:
                # Why the app cannot be loaded, a child will say. One that has loaded it is replaced at once.
                failures = run.failures
                if pause := RESTARTS.delay(failures - (loaded is not None), random.random()):
                    self._settled.set()
                    await first(asyncio.sleep(pause), renewed.wait())
            self._settled.clear()

    async def _one(self, renewed: asyncio.Event) -> Loaded | None:
        """One fork server from its start to its end. None: it could not load the app."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with contextlib.ExitStack() as undone:
            undone.callback(ours.close)
            ours.setblocking(False)
            with theirs:
                process = subprocess.Popen(  # noqa: S603, ASYNC220 - our own program, and starting it is quick
                    [sys.executable, "-m", PROGRAM, str(theirs.fileno()), self._address],
                    pass_fds=(theirs.fileno(),),
                    env=dict(self._environment),
                    stdin=subprocess.DEVNULL,
                )
            self._process = process
            loaded: Loaded | None = None
            try:
                loaded = await _receive(ours, Loaded)
                if loaded is not None and loaded.refusal:
                    logger.warning("processes are started anew, not forked: the import %s", loaded.refusal)
                elif loaded is not None:
                    logger.debug("fork server %d has loaded the app", process.pid)
                    self._line = ours
                    self._settled.set()
                    await exited(process)
            finally:
                self._line = None
                self._settled.clear()
                code = await to_the_end(self._end(process))
            if loaded is not None and not loaded.refusal and not renewed.is_set():
                logger.warning("fork server %d %s; another one loads the app", process.pid, ending(code))
            return loaded

    async def _end(self, process: subprocess.Popen[bytes]) -> int:
        """See it out, and who still waits for its answer."""
        process.kill()
        await exited(process)
        self._process = None
        async with self._turn:
            return process.wait()


async def _receive(line: socket.socket, kind: type[T]) -> T | None:
    """Return the next message; None: the other side is gone."""
    loop, there = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(line, there.set)
    try:
        await there.wait()
    finally:
        loop.remove_reader(line)
    try:
        said = line.recv(LONGEST)
    except OSError:
        return None
    return msgspec.json.decode(said, type=kind) if said else None


async def _undo(asking: asyncio.Future[Adopted]) -> None:
    """End the child that is no longer wanted."""
    await asyncio.wait([asking])
    if asking.exception() is None:
        child = asking.result()
        child.kill()
        await exited(child)
        child.wait()
