"""A child process that leads a process group of its own, and so can be ended with all it has started [K8].

The leader is reaped only here, and only after its group was killed: until then its number cannot pass to a
stranger, so a kill never hits the wrong process. Children that make a session of their own (daemons) have
left the group and are not followed. Nothing here knows what the child is for.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
from collections.abc import Coroutine, Mapping, Sequence
from typing import IO, Any, Final, Protocol, TypeVar

T = TypeVar("T")
POLL: Final = 0.02


class ProcessGroup:
    """A child process in a session and process group of its own, with pipes for its output.

    `stdin` False gives it an empty input. `merged` sends stderr the way of stdout, in order.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        stdin: bool = True,
        merged: bool = False,
    ) -> None:
        self._process = subprocess.Popen(  # noqa: S603 - a list, never a shell; the caller says what may run
            list(argv),
            env=env,
            cwd=cwd,
            stdin=subprocess.PIPE if stdin else subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT if merged else subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.pid: Final = self._process.pid
        self._ended = False

    @property
    def stdin(self) -> IO[bytes]:
        """The end of its input that is ours."""
        assert self._process.stdin is not None
        return self._process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        """The end of its output that is ours."""
        assert self._process.stdout is not None
        return self._process.stdout

    @property
    def stderr(self) -> IO[bytes]:
        """The end of its other output that is ours."""
        assert self._process.stderr is not None
        return self._process.stderr

    async def exited(self) -> None:
        """Wait until the leader has ended. It stays unreaped, so that its number stays its own."""
        await exited(self._process)

    def send(self, number: signal.Signals) -> None:
        """Send the leader a signal."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            self._process.send_signal(number)

    async def end(self) -> int:
        """Kill whatever is left of the group, reap the leader and return its code (-9: signal 9)."""
        if not self._ended:
            with contextlib.suppress(ProcessLookupError, PermissionError):  # macOS forbids killing the dead
                os.killpg(self.pid, signal.SIGKILL)
            await self.exited()
            self._ended = True
        return self._process.wait()


class Reapable(Protocol):
    """A child process of this one, started here or adopted."""

    @property
    def pid(self) -> int:
        """Its number."""

    @property
    def returncode(self) -> int | None:
        """Its exit code once it is reaped."""

    def poll(self) -> int | None:
        """Reap it if it has ended."""


async def exited(process: Reapable) -> None:
    """Wait until a child process has ended, without a thread: one each would use up those of the loop. It
    stays unreaped where the system can tell its end otherwise."""
    if process.returncode is not None:
        return
    try:
        watch = os.pidfd_open(process.pid)
    except (AttributeError, OSError):  # not Linux, or forbidden in this container
        while process.poll() is None:  # noqa: ASYNC110 - nothing here could set an event
            await asyncio.sleep(POLL)
        return
    loop, ended = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(watch, ended.set)
    try:
        await ended.wait()
    finally:
        loop.remove_reader(watch)
        os.close(watch)


async def to_the_end(work: Coroutine[Any, Any, T]) -> T:
    """Await work that must not stop half-way, such as a kill. A cancellation in between is raised after."""
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    return task.result()


def ending(code: int) -> str:
    """How a process ended, in words: `ended with code 3`, `was killed by SIGKILL`."""
    if code >= 0:
        return f"ended with code {code}"
    try:
        return f"was killed by {signal.Signals(-code).name}"
    except ValueError:  # real-time signals have no name
        return f"was killed by signal {-code}"
