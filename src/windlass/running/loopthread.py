"""One event loop in one daemon thread per process, started on first use and remade after a fork.

Stores live on this loop. Synchronous calls run on it, and so do asynchronous ones that come from a loop
without a store of its own; hence an app works from any thread and any number of loops, one after the other or
side by side, though a driver's connections belong to a single loop. No code of the user ever runs here: a
handler that blocks its own loop neither blocks the store nor deadlocks a synchronous call made inside it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import sys
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Final, TypeVar

T = TypeVar("T")
logger: Final = logging.getLogger("windlass")


class LoopThread:
    """A loop that runs until the process ends."""

    def __init__(self) -> None:
        self.loop: Final = (prefer_uvloop() or asyncio.new_event_loop)()
        self._thread = threading.Thread(target=self.loop.run_forever, name="windlass-loop", daemon=True)
        self._thread.start()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and wait for its answer, from any other thread."""
        if threading.get_ident() == self._thread.ident:
            coroutine.close()
            raise RuntimeError("a synchronous call on Windlass's own loop would wait for itself")
        if in_loop():
            _tell_of_blocking()
        future = asyncio.run_coroutine_threadsafe(coroutine, self.loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C while waiting: do not leave the work behind
            raise

    async def arun(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on the loop and await its answer, from any other loop."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(coroutine, self.loop))


def current() -> LoopThread:
    """This process's loop thread, started if need be."""
    global _current  # noqa: PLW0603 - one per process is the point of this module
    if _current is None:
        with _lock:
            if _current is None:
                _current = LoopThread()
    return _current


def in_loop() -> bool:
    """Return whether this thread runs an event loop at the moment."""
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True


def _tell_of_blocking() -> None:
    """Say, once for each line that does so, that it holds up the event loop it is on, and what to await."""
    called, caller = sys._getframe(), sys._getframe(1)
    while caller.f_back is not None and caller.f_globals.get("__name__", "").startswith("windlass."):
        called, caller = caller, caller.f_back
    place = caller.f_code.co_filename, caller.f_lineno
    if place in _told:
        return
    _told.add(place)
    name = called.f_code.co_name
    has_twin = hasattr(called.f_locals.get("self"), f"a{name}")
    logger.warning(
        "%s:%d calls %s() where an event loop runs, which stands still until the store answers; %s",
        *place,
        name,
        f"await a{name}() instead" if has_twin else "await what is asynchronous instead",
    )


def run_here(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine in this thread, which must not be inside an event loop already."""
    if in_loop():
        coroutine.close()
        raise RuntimeError(
            f"this thread runs an event loop; await {getattr(coroutine, '__name__', 'it')}() instead"
        )
    with asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        return runner.run(coroutine)


def cancelled_from_outside() -> bool:
    """Return whether this task was cancelled, also where an error on its way out has hidden that."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def prefer_uvloop() -> Callable[[], asyncio.AbstractEventLoop] | None:
    """Return the factory of our own event loops: uvloop's, where it is installed. A loop that the program
    runs already is never replaced."""
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


def loop_name(loop: asyncio.AbstractEventLoop) -> str:
    """Whose loop this is, for the log."""
    name = type(loop).__module__.partition(".")[0]
    hint = " (uvloop is faster: pip install 'windlass[uvloop]')" if name == "asyncio" else ""
    return name + hint


def _forget_after_fork() -> None:
    """The thread did not come along, but its loop's descriptors did, shared with the parent: never close
    them."""
    global _current, _lock
    if _current is not None:
        _parents.append(_current)
    _current, _lock = None, threading.Lock()


_told: Final[set[tuple[str, int]]] = set()
"""The lines that were told of."""
_current: LoopThread | None = None
_lock = threading.Lock()
_parents: list[LoopThread] = []
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
