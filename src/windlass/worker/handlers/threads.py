"""Runs plain functions in daemon threads that take the next call from one line.

A thread that is done takes the next call at once, and another one is woken only when a call has waited for a
millisecond: so short functions run one after the other without a switch of threads for each, and functions
that block still hold up no other. Answers are handed over many at a time, too.

A thread cannot be stopped from outside. When its caller gives up on it (timeout, shutdown) it is left
behind: it ends by itself when its function returns, takes no further call, and does not keep the process
from exiting. `concurrent.futures` would do neither: its threads are joined at exit, and a stuck one takes a
place for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import queue
import sys
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import Any, Final

PATIENCE: Final = 0.001
"""Seconds that a call waits for a thread that is at work before another one is woken for it."""


class Call:
    """One function call on its way through a thread."""

    __slots__ = ("answer", "ended", "error", "function", "left_behind", "thread", "value")

    def __init__(self, function: Callable[[], Any], answer: asyncio.Future[None]) -> None:
        self.function: Callable[[], Any] | None = function
        self.answer: Final = answer
        self.thread: _Thread | None = None
        self.ended: bool = False
        """Set by the thread, before it looks whether the call was left behind."""
        self.left_behind: bool = False
        """Set by the caller, before it looks whether the call has ended."""
        self.value: Any = None
        self.error: BaseException | None = None


class Threads:
    """Daemon threads for one loop. How many calls are under way at once is the caller's to bound.

    The line and the lists are touched by several threads; each touch is one operation of a deque or a list,
    which is atomic, and the order of the touches is what keeps a call from being forgotten.
    """

    def __init__(self) -> None:
        self._line: deque[Call] = deque()
        self._ended: deque[Call] = deque()
        self._idle: list[_Thread] = []
        self._awake: set[_Thread] = set()
        self.closed: bool = False
        self._notified = False
        self._checking = False
        self._more = 1

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in a thread, with this task's context, and await what it returns or raises.

        When this is cancelled while the function runs, its thread is left behind, and then, and only then,
        the exception carries a note of where it stood.
        """
        loop = asyncio.get_running_loop()
        call = Call(
            functools.partial(contextvars.copy_context().run, function, *args, **kwargs), loop.create_future()
        )
        self._line.append(call)  # before looking who is awake: see next_call
        if not self._awake:
            self._wake(loop)
        elif not self._checking:
            self._checking = True
            loop.call_later(PATIENCE, self._check, loop)
        try:
            await call.answer
        except asyncio.CancelledError as cancelled:
            self._leave_behind(call, cancelled)
            raise
        if call.error is not None:
            raise call.error
        return call.value

    def close(self) -> None:
        """Let the idle threads end, and those that become idle from now on."""
        self.closed = True  # before looking who is idle: see _Thread._work
        while self._idle:
            self._idle.pop().stop()

    def _wake(self, loop: asyncio.AbstractEventLoop) -> None:
        try:
            self._idle.pop().wake()
        except IndexError:
            _Thread(self, loop).start()

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Calls still wait. Where every thread is held up by its function, more are woken: twice as many each
        time, since one that only waits for its turn to run looks held up, too."""
        self._checking = False
        if not self._line:
            self._more = 1
            return
        limit = time.monotonic() - PATIENCE
        if all(thread.began < limit for thread in list(self._awake)):
            for _ in range(min(self._more, len(self._line))):
                self._wake(loop)
            self._more *= 2
        self._checking = True
        loop.call_later(PATIENCE, self._check, loop)

    def _leave_behind(self, call: Call, cancelled: asyncio.CancelledError) -> None:
        call.function = None  # not to be started any more
        thread = call.thread
        if thread is None:
            return
        call.left_behind = True
        stack = thread.stack()
        if call.ended:  # and then its thread may have another job by now
            return
        cancelled.add_note(f"Its thread could not be stopped and stood at:\n{stack}")
        self._awake.discard(thread)

    # -- from the threads ---------------------------------------------------------------------------------

    def next_call(self, thread: _Thread) -> Call | None:
        """The next in line, or None: then the thread is among the idle, and sleeps until it is woken."""
        while True:
            with contextlib.suppress(IndexError):
                return self._line.popleft()
            self._awake.discard(thread)
            self._idle.append(thread)
            # A call that came before that saw this thread awake and woke nobody: look once more.
            if not self._line:
                return None
            try:
                self._idle.remove(thread)
            except ValueError:
                return None  # somebody has woken it in between
            self._awake.add(thread)

    def has_ended(self, call: Call, loop: asyncio.AbstractEventLoop) -> None:
        """A function has returned or raised. The loop is notified once for all that end before it looks."""
        self._ended.append(call)
        if not self._notified:
            self._notified = True
            with contextlib.suppress(RuntimeError):  # the loop that asked is closed
                loop.call_soon_threadsafe(self._deliver)

    def gone(self, thread: _Thread) -> None:
        """A thread that was left behind ends."""
        self._awake.discard(thread)

    def woken(self, thread: _Thread) -> None:
        """A thread that slept is at work again."""
        self._awake.add(thread)

    def _deliver(self) -> None:
        self._notified = False  # before looking: whatever ends from now on notifies again
        while self._ended:
            call = self._ended.popleft()
            if not call.answer.done():
                call.answer.set_result(None)


class _Thread:
    """One thread."""

    def __init__(self, threads: Threads, loop: asyncio.AbstractEventLoop) -> None:
        self.began: float = float("inf")
        """When its present function began; never, between two."""
        self._threads = threads
        self._loop = loop
        self._bell: queue.SimpleQueue[bool] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="windlass-job", daemon=True)

    def start(self) -> None:
        """Begin, awake: before it can look, lest it goes to sleep and is then thought to be awake."""
        self._threads.woken(self)
        self._thread.start()

    def wake(self) -> None:
        """There is a call for it. It counts as awake from now on, so that the next call need not wake
        more."""
        self._threads.woken(self)
        self._bell.put(True)

    def stop(self) -> None:
        """Let it end."""
        self._bell.put(False)

    def stack(self) -> str:
        """Where it stands."""
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else "(it has ended)"

    def _work(self) -> None:
        while True:
            call = self._threads.next_call(self)
            if call is None:
                if self._threads.closed or not self._bell.get():
                    return
                continue
            call.thread = self
            function, call.function = call.function, None
            if function is not None:
                self.began = time.monotonic()
                try:
                    call.value = function()
                except BaseException as error:  # noqa: BLE001 - handed to the one who awaits it
                    call.error = error
                self.began = float("inf")
            call.ended = True
            if call.left_behind:
                self._threads.gone(self)
                return
            self._threads.has_ended(call, self._loop)
            del call, function  # an idle thread must not keep a job's values alive
