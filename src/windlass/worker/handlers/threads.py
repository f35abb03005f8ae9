"""Runs plain functions in daemon threads that take the next call from one line.

A thread that is done takes the next call at once, and another one is woken only when a call has waited for a
millisecond: so short functions run one after the other without a switch of threads for each, and functions
that block still hold up no other. Answers are handed over many at a time, too, and each is a call on the loop
and nothing else: who wants to await one makes a future for it (`Threads.run`).

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

import msgspec

PATIENCE: Final = 0.001
"""Seconds that a call waits for a thread that is at work before another one is woken for it."""


class Call(msgspec.Struct, eq=False):
    """One call on its way through a thread. `answered` is called with it on the loop when it has ended,
    unless it was given up before."""

    answered: Callable[[Any], None]
    context: contextvars.Context
    """It runs in a copy of this one: what the function sets there is seen by no other run."""
    thread: _Thread | None = None
    wanted: bool = True
    """True if it is still to be made."""
    ended: bool = False
    """Set by the thread, before it looks whether the call was left behind."""
    left_behind: bool = False
    """Set by the caller, before it looks whether the call has ended."""
    given_up: bool = False
    """True if its answer is no longer waited for."""
    began: float = 0.0
    took: float = 0.0
    value: Any = None
    error: BaseException | None = None

    def work(self) -> Any:
        """Do the work, in the thread. What it returns is `value`, what it raises is `error`."""
        raise NotImplementedError

    def result(self) -> Any:
        """Return what the work returned, or raise what it raised. To be called once."""
        if self.error is not None:
            error, self.error = self.error, None  # its traceback leads to this call
            raise error
        return self.value

    def give_up(self, told: BaseException) -> bool:
        """Wait no longer for it. One that has not begun will not begin; the thread of one that has is left
        behind, and then, and only then, `told` gets a note of where it stood. False: it has ended, and its
        answer is on its way. From the loop."""
        self.wanted = False
        thread = self.thread
        if thread is not None:
            self.left_behind = True
            stack = thread.stack()
            if self.ended:  # and then its thread may have another job by now
                return False
            told.add_note(f"Its thread could not be stopped and stood at:\n{stack}")
            thread.leave()
        self.given_up = True
        return True


class _Awaited(Call):
    """The call of a function, with a future that is done when it has ended."""

    function: Callable[[], Any] | None = None

    def work(self) -> Any:
        assert self.function is not None
        return self.function()


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
        self._beginning = False
        self._checking = False
        self._more = 1

    def start(self, call: Call) -> None:
        """Have a call made, from the loop."""
        self._line.append(call)  # before looking who is awake: see next_call
        if self._awake:
            if not self._checking:
                self._check_later(asyncio.get_running_loop())
        elif not self._beginning:  # once the others that the loop has at hand are in line, too
            self._beginning = True
            loop = asyncio.get_running_loop()
            loop.call_soon(self._begin, loop)

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in a thread, with this task's context, and await what it returns or raises. When
        this is cancelled, the call is given up."""
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        call = _Awaited(
            lambda _: None if answer.done() else answer.set_result(None),
            contextvars.copy_context(),
            function=functools.partial(function, *args, **kwargs),
        )
        self.start(call)
        try:
            await answer
        except asyncio.CancelledError as cancelled:
            call.give_up(cancelled)
            raise
        return call.result()

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

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        """Calls are in line, and all threads slept when the first one came."""
        self._beginning = False
        if not self._checking:
            self._check_later(loop)  # first: it tries again where no thread can be had now
        if self._line and not self._awake:
            self._wake(loop)

    def _check_later(self, loop: asyncio.AbstractEventLoop) -> None:
        self._checking = True
        loop.call_later(PATIENCE, self._check, loop)

    def _check(self, loop: asyncio.AbstractEventLoop) -> None:
        """Calls still wait. Where every thread is held up by its function, more are woken: twice as many each
        time, since one that only waits for its turn to run looks held up, too."""
        self._checking = False  # before looking: see has_ended
        if self._ended and not self._notified:
            self._notified = True
            loop.call_soon(self._deliver)
        if not self._line:
            self._more = 1
            return
        self._check_later(loop)
        limit = time.monotonic() - PATIENCE
        if all(thread.began < limit for thread in list(self._awake)):
            for _ in range(min(self._more, len(self._line))):
                self._wake(loop)
            self._more *= 2

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
        """A function has returned or raised. The loop is notified by the last in line, or looks by itself
        before long where it is about to check."""
        self._ended.append(call)  # before looking whether it will: see _check
        if not self._notified and not (self._checking and self._line):
            self._notified = True
            with contextlib.suppress(RuntimeError):  # the loop that asked is closed
                loop.call_soon_threadsafe(self._deliver)

    def gone(self, thread: _Thread) -> None:
        """A thread was left behind, or ends because of that: it takes no further call."""
        self._awake.discard(thread)

    def woken(self, thread: _Thread) -> None:
        """A thread that slept is at work again."""
        self._awake.add(thread)

    def _deliver(self) -> None:
        self._notified = False  # before looking: whatever ends from now on notifies again
        try:
            for _ in range(len(self._ended)):  # and no more: the loop has others to serve
                call = self._ended.popleft()
                if not call.given_up:
                    call.answered(call)
        finally:
            if self._ended and not self._notified:  # an error, or a Ctrl-C, must not keep the others here
                self._notified = True
                asyncio.get_running_loop().call_soon(self._deliver)


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
        try:
            self._thread.start()
        except BaseException:  # the system has no room for another one: nobody may wait for this one
            self._threads.gone(self)
            raise

    def wake(self) -> None:
        """There is a call for it. It counts as awake from now on, so that the next call need not wake
        more."""
        self._threads.woken(self)
        self._bell.put(True)

    def stop(self) -> None:
        """Let it end."""
        self._bell.put(False)

    def leave(self) -> None:
        """Its call was given up."""
        self._threads.gone(self)

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
            call.thread = self  # before looking whether it is wanted: see Call.give_up
            if call.wanted:
                self.began = call.began = time.monotonic()
                try:
                    call.value = call.context.copy().run(call.work)
                except BaseException as error:  # noqa: BLE001 - handed to the one who waits for it
                    call.error = error
                self.began = float("inf")
                call.took = time.monotonic() - call.began
            call.ended = True
            self._threads.has_ended(call, self._loop)
            if call.left_behind:
                self._threads.gone(self)
                return
            del call  # an idle thread must not keep a job's values alive
