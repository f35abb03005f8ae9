"""A pool of warm child processes that speak one JSON line each way [K8].

    child's stdin   {"any": "request"}      one line, then the child works
    child's stdout  {"any": "answer"}       one line, then it waits for the next
    child's stderr  free text; its end is kept for the error when the child fails

A child is started when it is needed, leads a process group of its own, serves one request at a time and stays
for the next. Its contract is small: read lines, answer each with one line, end when stdin ends. The last is
what keeps orphans away: however the parent dies, the pipe closes. A child that breaks the contract is killed
with its group and replaced. Nothing is ever pickled.
"""

from __future__ import annotations

import asyncio
import os
import shlex
import signal
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from windlass.core.read_errors import READ_ERRORS
from windlass.errors import ConfigurationError, PoolError
from windlass.running.pipes import ReadEnd, Tail, WriteEnd
from windlass.running.process_group import ProcessGroup, ending, to_the_end

MAX_LINE: Final = 64 * 1024 * 1024
KEPT_STDERR: Final = 8 * 1024
SHOWN_ARGV: Final = 80
IDLE: Final = 300.0
LEAVE: Final = 2.0
"""How long a child may take to end by itself once its input is closed."""
STACK: Final = 0.2
"""How long a child that is to be killed may take to write where it stands."""
QUIET: Final = 0.03
"""So long after its last words, it has said them all."""
SETTLE: Final = 0.5
"""How long to wait for what must come at once: the code of a child that closed its output, its last words."""


class WarmPool:
    """At most `size` children of one program, for one loop. A child unused for `idle` seconds is let go.

    `env` None gives them this process's environment. `echo` is handed what they write to stderr.
    `stack_signal` is for children that answer it with their stack on stderr, as `faulthandler.register` does:
    one that is to be killed at work gets it before, and the stack is a note of the exception. With
    `chain=True` it ends by itself once that is written, and nobody waits for more.

    As a block, `async with WarmPool(...) as pool:`, it is closed at the end.
    """

    def __init__(
        self,
        argv: Sequence[str],
        *,
        size: int,
        env: Mapping[str, str] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        idle: float = IDLE,
        echo: Callable[[bytes], None] | None = None,
        stack_signal: signal.Signals | None = None,
    ) -> None:
        if size < 1:
            raise ConfigurationError(f"a pool of {size} processes cannot run anything; give it at least 1")
        self._argv = tuple(argv)
        name = shlex.join(self._argv)
        self._name = name if len(name) <= SHOWN_ARGV else f"{name[:SHOWN_ARGV]}…"
        self._env = None if env is None else dict(env)
        self._cwd = cwd
        self._idle_for = idle
        self._echo = echo
        self._stack_signal = stack_signal
        self._slots = asyncio.Semaphore(size)
        self._children: set[_Child] = set()
        self._idle: list[_Child] = []
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def call(self, request: Any, timeout: float | None = None) -> Any:
        """Send a request to a free child, or wait for one, and return its answer.

        Raises PoolError when the child fails, TimeoutError when it takes longer than `timeout` seconds. Then,
        and when this is cancelled, the child and all it has started are dead before the exception is raised.
        """
        line = msgspec.json.encode(request) + b"\n"
        if len(line) > MAX_LINE:
            raise PoolError(f"a request of {len(line):,} bytes is too long: at most {MAX_LINE:,} can be sent")
        async with self._slots:
            child = self._take()
            try:
                async with asyncio.timeout(timeout):
                    answer = await child.ask(line)
                value = _decode(answer)
            except _Broken as broken:
                raise await to_the_end(self._blame(child, str(broken))) from None
            except TimeoutError:
                late = TimeoutError(f"`{self._name}` gave no answer within {timeout:g} s")
                await to_the_end(self._cut_off(child, late))
                raise late from None
            except BaseException as error:
                await to_the_end(self._cut_off(child, error))
                raise
            await self._give_back(child)
            return value

    async def close(self) -> None:
        """End all children: those at work are cut off. Each has two seconds to leave, then it is killed."""
        self._closed = True
        while self._idle:
            self._idle.pop().stop_waiting()
        await to_the_end(_all([*map(self._let_go, self._children), *self._leaving]))

    def _take(self) -> _Child:
        if self._closed:
            raise PoolError(f"the pool of `{self._name}` is closed; make a new one")
        while self._idle:
            child = self._idle.pop()
            child.stop_waiting()
            if not child.stale:
                return child
            self._leave(child)
        try:
            child = _Child(self._argv, self._env, self._cwd, self._echo)
        except (OSError, ValueError) as error:
            raise PoolError(f"`{self._name}` cannot be started: {error}") from error
        self._children.add(child)
        return child

    async def _give_back(self, child: _Child) -> None:
        if child.stale:  # it said more than was asked: its next line might answer the wrong request
            await to_the_end(self._kill(child))
        elif not self._closed:
            child.wait_for_work(self._idle_for, self._retire)
            self._idle.append(child)

    def _retire(self, child: _Child) -> None:
        self._idle.remove(child)
        self._leave(child)

    def _leave(self, child: _Child) -> None:
        task = asyncio.ensure_future(self._let_go(child))
        self._leaving.add(task)
        task.add_done_callback(self._leaving.discard)

    async def _let_go(self, child: _Child) -> None:
        await child.leave()
        self._children.discard(child)

    async def _kill(self, child: _Child) -> int:
        code = await child.end()
        self._children.discard(child)
        return code

    async def _cut_off(self, child: _Child, error: BaseException) -> None:
        """Kill a child at work; the error tells where it stood."""
        if self._stack_signal is not None:
            await child.say_stack(self._stack_signal)
        await self._kill(child)
        if self._stack_signal is not None and child.stderr:
            error.add_note(f"Its process was killed and stood at:\n{child.stderr}")

    async def _blame(self, child: _Child, what: str) -> PoolError:
        """The error for a child that broke the contract, once it is gone."""
        left = not what and await child.settle()
        code = await self._kill(child)
        how = what or f"{ending(code) if left else 'closed its output'} before it answered"
        if self._closed:
            how = "was cut off, since its pool was closed"
        return PoolError(f"`{self._name}` {how}", child.stderr)


class _Broken(Exception):
    """A child broke the contract. The text says how; an empty one: it ended."""


class _Child:
    """One child and its pipes."""

    def __init__(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None,
        cwd: str | os.PathLike[str] | None,
        echo: Callable[[bytes], None] | None,
    ) -> None:
        self.stale = False
        self._line = bytearray()
        self._answer: asyncio.Future[bytes] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._tail = Tail(KEPT_STDERR)
        self._words: asyncio.Event | None = None
        self._echo = echo
        self._group = ProcessGroup(argv, env=env, cwd=cwd)
        self._stdin = WriteEnd(self._group.stdin)
        self._stdout = ReadEnd(self._group.stdout, self._said, self._gone)
        self._stderr = ReadEnd(self._group.stderr, self._complained)

    @property
    def stderr(self) -> str:
        """The end of what it wrote there during this request."""
        return self._tail.text()

    async def ask(self, line: bytes) -> bytes:
        """Send one line and return the one that answers it."""
        self._tail.clear()
        self._line.clear()
        self._answer = asyncio.get_running_loop().create_future()
        self._stdin.write(line)
        return await self._answer

    def wait_for_work(self, seconds: float, bored: Callable[[_Child], None]) -> None:
        """Call `bored` if nothing comes within this time."""
        self._timer = asyncio.get_running_loop().call_later(seconds, bored, self)

    def stop_waiting(self) -> None:
        """There is work, or there will never be."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    async def leave(self) -> None:
        """Ask it to end, and see to it that it does."""
        self._stdin.close()
        await self.settle(LEAVE)
        await self.end()

    async def settle(self, seconds: float = SETTLE) -> bool:
        """Let it end by itself, so that its code is its own. Returns whether it did."""
        try:
            async with asyncio.timeout(seconds):
                await self._group.exited()
        except TimeoutError:
            return False
        return True

    async def say_stack(self, number: signal.Signals) -> None:
        """Let it write where it stands, if it does so in time. One that ends with that has said it all."""
        self._tail.clear()
        self._words, self._echo = asyncio.Event(), None
        self._group.send(number)
        either = [
            asyncio.ensure_future(self._group.exited()),
            asyncio.ensure_future(self._quiet(self._words)),
        ]
        await asyncio.wait(either, timeout=STACK, return_when=asyncio.FIRST_COMPLETED)
        for each in either:
            each.cancel()
        await asyncio.wait(either)

    async def _quiet(self, words: asyncio.Event) -> None:
        await words.wait()
        while words.is_set():
            words.clear()
            await asyncio.sleep(QUIET)

    async def end(self) -> int:
        """Kill it with its group, keep its last words, and return its code."""
        code = await self._group.end()
        self._stdin.close()
        self._stdout.close()
        await self._stderr.drained(SETTLE)
        return code

    def _said(self, data: bytes) -> None:
        if self._answer is None or self._answer.done():
            self.stale = True
            return
        end = data.find(b"\n")
        self._line += data if end < 0 else data[:end]
        if len(self._line) > MAX_LINE:
            self._fail(f"answered with a line of more than {MAX_LINE:,} bytes")
        elif end >= 0:
            self.stale = end + 1 < len(data)
            self._answer.set_result(bytes(self._line))
            self._line.clear()

    def _gone(self) -> None:
        self._fail("")

    def _fail(self, how: str) -> None:
        self.stale = True
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(_Broken(how))

    def _complained(self, data: bytes) -> None:
        self._tail.add(data)
        if self._words is not None:
            self._words.set()
        if self._echo is not None:
            self._echo(data)


def _decode(answer: bytes) -> Any:
    try:
        return msgspec.json.decode(answer)
    except READ_ERRORS as error:
        raise _Broken(f"answered {answer[:80]!r}, which is no JSON ({error})") from None


async def _all(work: Sequence[Awaitable[None]]) -> None:
    await asyncio.gather(*work)
