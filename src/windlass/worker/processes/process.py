"""One child process from the supervisor's side: starting it, hearing it, and what is left when it ends."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, TypeAlias

from windlass.cluster.member import Member
from windlass.core.slots import MAX_SLOTS
from windlass.running.process_group import exited
from windlass.store.records import WakeUp
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.unresponsive import loop_turns
from windlass.worker.processes import channel as protocol
from windlass.worker.processes.adoption import Adopted
from windlass.worker.processes.channel import Channel
from windlass.worker.processes.standstill import switches
from windlass.worker.reports.status_memory import StatusMemory

logger: Final = logging.getLogger("windlass.worker")
STACK_TIME: Final = 0.5
"""Seconds that a stuck child gets to print its stacks before it is killed."""


LAST_WORDS: Final = 1.0
"""Seconds to read what a child that has ended said before."""


Fork: TypeAlias = Callable[[socket.socket, int], Awaitable[Adopted | None]]
"""Forks a child with its end of the channel and its status memory; None: it has to be started anew."""


class Process:
    """A running child. Its jobs are in `status_memory` and its identities in `workers`, also after it has
    ended."""

    def __init__(
        self,
        child: subprocess.Popen[bytes] | Adopted,
        channel: Channel,
        status_memory: StatusMemory,
        member: Member,
        label: str = "",
    ) -> None:
        self.label = label
        self._child = child
        self._channel = channel
        self._member = member
        self.status_memory = status_memory
        self.workers: set[int] = set()
        self.overdue: set[int] = set()
        self.ready: Final = asyncio.Event()
        self.leaving: bool = False
        self.unresponsive: bool = False
        """True if it takes nothing though it could, and is not replaced yet; see `unresponsive`."""
        self.still: bool = False
        """It is stopped by a signal, or has not moved for some seconds; see `standstill`."""
        self.given_up: bool = False
        """It had not moved for a lease. A frozen one ends only when it is thawed."""
        self.killed: bool = False
        """We ended it ourselves, so none of its jobs is to blame."""
        self.failure: str | None = None
        self.reason: str | None = None
        self.memory: int = 0
        """The bytes it used, where it leaves because of them."""
        self._recycle: Callable[[], None] = lambda: None

    @classmethod
    async def start(
        cls, start: protocol.Start, member: Member, fork: Fork, environment: Mapping[str, str]
    ) -> Process:
        """Start a child, forked where that can be, and tell it what to be. Raises what `fork` does."""
        with contextlib.ExitStack() as undone:
            ours, theirs = socket.socketpair()
            undone.callback(ours.close)
            with theirs:
                memory = StatusMemory.make(MAX_SLOTS * len(start.queues))
                undone.callback(memory.close)
                child = await fork(theirs, memory.fd) or _start_anew(theirs, memory, environment)
            undone.callback(child.wait)
            undone.callback(child.kill)
            channel = await Channel.over(ours)
            undone.pop_all()
        channel.send(start)
        return cls(child, channel, memory, member, start.label)

    @property
    def pid(self) -> int:
        """The child's process id."""
        return self._child.pid

    # -- what the member asks: see windlass.cluster.member.Local -------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """Pass new slots and settings on."""
        self._channel.send(protocol.Assign(assignment))

    def wake(self, wake_up: WakeUp) -> None:
        """Forward a wake-up."""
        self._channel.send(protocol.Wake(wake_up))

    def cancel(self, jobs: frozenset[int]) -> None:
        """Pass a wish to cancel on."""
        self._channel.send(protocol.Cancel(list(jobs)))

    def lose(self, worker: int) -> None:
        """Tell the child that this identity is dead."""
        self._channel.send(protocol.Lose(worker))

    def can_run(self) -> bool:
        """Return whether the process runs at all: one that was stopped by a signal must lose its lease
        [C5]."""
        if self._child.returncode is not None or self.given_up:
            return False
        try:
            with open(f"/proc/{self.pid}/stat", "rb") as stat:
                return stat.read().rpartition(b")")[2].split()[0] not in (b"T", b"t", b"Z", b"X")
        except OSError:
            return True

    # -- what the watchdog asks: see windlass.worker.processes.standstill ------------------------------------

    def sign_of_life(self) -> object:
        """Return another value each time after it has moved; None: it cannot be seen, or need not."""
        if loop_turns(self.status_memory):
            return self.status_memory.ticked_at
        if not self.ready.is_set():
            return None if self.can_run() else "stopped"
        return switches(self.pid)

    # -- ending it ------------------------------------------------------------------------------------------

    def shutdown(self, *, stacks: bool = False) -> None:
        """Tell the child to finish and leave; first, to say where its tasks stand."""
        self.leaving = True
        self._channel.send(protocol.Shutdown(stacks))

    def stop_now(self) -> None:
        """Tell the child to hand everything back and leave now."""
        self.leaving = True
        self._channel.send(protocol.StopNow())

    async def dismiss(self) -> None:
        """End one that has no place in the row: it was given no slots, so it holds no job."""
        self.kill()
        await exited(self._child)
        self._child.wait()
        await self._channel.close()
        self.status_memory.close()

    def kill(self) -> None:
        """End it, whatever it does."""
        with contextlib.suppress(ProcessLookupError):
            self._child.kill()

    async def kill_for(self, jobs: list[int]) -> None:
        """End a child whose jobs ignore that their time is over. First it is made to print its stacks."""
        self.overdue.update(jobs)
        self.killed = True
        logger.error("jobs %s in process %d ignored their timeout; killing it. Its stacks:", jobs, self.pid)
        await self._print_stacks()
        self.kill()

    async def replace(self, why: str, *, alive: bool) -> None:
        """Have another take its place, after it was made to print its stacks. One that is `alive` may finish
        what it runs."""
        self.unresponsive, self.reason = True, why
        await self._print_stacks()
        if alive:
            self.shutdown(stacks=True)
            self._recycle()
        else:
            self.killed = True
            self.kill()

    def give_up(self, why: str) -> None:
        """Kill one that does not move, and have another take its place without waiting for its end."""
        self.given_up = self.unresponsive = self.leaving = True
        self.reason = why
        self._recycle()
        self.kill()

    async def _print_stacks(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGUSR2)
        await asyncio.sleep(STACK_TIME)

    async def listen(self, recycle: Callable[[], None], up: Callable[[], None] = lambda: None) -> None:
        """Hear the child out, until it is gone. `up` is called when it can work, and `recycle` when it wants
        to be replaced."""
        self._recycle = recycle
        async for message in self._channel.messages():
            match message:
                case protocol.Ready():
                    self.ready.set()
                    up()
                case protocol.Failed():
                    self.failure = message.message
                case protocol.Began():
                    self.workers.add(message.worker)
                    self._member.join(message.worker, self)
                case protocol.Ended():
                    # Not forgotten yet: what it could not hand back itself is handed back when it has ended.
                    self._member.leave(message.worker)
                case protocol.Recycle():
                    self.leaving, self.reason, self.memory = True, message.reason, message.memory
                    recycle()
                case _:
                    logger.debug("a child sent %r", message)

    async def wait(self, listening: asyncio.Task[None]) -> int:
        """Wait for its end; the answer is its exit code, negative where a signal ended it."""
        await exited(self._child)
        code = self._child.wait()
        # What it said last may still be in the line, and an identity we did not hear of would wait for its
        # lease. But a process that it started may hold the other end, and that one says nothing.
        await asyncio.wait({listening}, timeout=LAST_WORDS)
        for worker in self.workers:
            self._member.leave(worker)
        await self._channel.close()
        return code


def _start_anew(end: socket.socket, memory: StatusMemory, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """A child as a program of its own, which has the app still to import."""
    argv = [sys.executable, "-m", "windlass.worker.processes.child", str(end.fileno()), str(memory.fd)]
    # Not asyncio's: its child watcher would have to share signals with the app's own.
    return subprocess.Popen(  # noqa: S603 - our own program
        argv,
        pass_fds=(end.fileno(), memory.fd),
        env=dict(env),
        stdin=subprocess.DEVNULL,
    )
