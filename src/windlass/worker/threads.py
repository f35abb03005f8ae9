"""Runs plain functions in daemon threads, each kept for the next call.

A thread cannot be stopped from outside. When its caller gives up on it (timeout, shutdown) it is left behind:
it ends by itself when its function returns, takes no further call, and does not keep the process from
exiting. `concurrent.futures` would do neither: its threads are joined at exit, and a stuck one takes a place
for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import queue
import sys
import threading
import traceback
from collections.abc import Callable
from typing import Any, TypeAlias

Answer: TypeAlias = "asyncio.Future[tuple[Any, BaseException | None]]"


class Threads:
    """Daemon threads for one loop. How many run at once is the caller's to bound."""

    def __init__(self) -> None:
        self._idle: list[_Thread] = []

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a function in a thread, with this task's context, and await what it returns or raises.

        When this is cancelled the thread is left behind, and the exception carries a note of where it stood.
        """
        thread = self._idle.pop() if self._idle else _Thread()
        call = functools.partial(contextvars.copy_context().run, function, *args, **kwargs)
        try:
            value, error = await thread.call(call)
        except asyncio.CancelledError as cancelled:
            cancelled.add_note(f"Its thread could not be stopped and stood at:\n{thread.stack()}")
            thread.stop()
            raise
        self._idle.append(thread)
        if error is not None:
            raise error
        return value

    def close(self) -> None:
        """Let the idle threads end."""
        while self._idle:
            self._idle.pop().stop()


class _Thread:
    """One thread with an inbox; None in it means: end."""

    def __init__(self) -> None:
        self._inbox: queue.SimpleQueue[tuple[Callable[[], Any], Answer] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._work, name="windlass-job", daemon=True)
        self._thread.start()

    def call(self, function: Callable[[], Any]) -> Answer:
        answer: Answer = asyncio.get_running_loop().create_future()
        self._inbox.put((function, answer))
        return answer

    def stop(self) -> None:
        self._inbox.put(None)

    def stack(self) -> str:
        frame = sys._current_frames().get(self._thread.ident or 0)
        return "".join(traceback.format_stack(frame)) if frame else "(it has ended)"

    def _work(self) -> None:
        while (item := self._inbox.get()) is not None:
            function, answer = item
            result: tuple[Any, BaseException | None]
            try:
                result = function(), None
            except BaseException as error:  # noqa: BLE001 - handed to the one who awaits it
                result = None, error
            with contextlib.suppress(RuntimeError):  # the loop that asked is closed
                answer.get_loop().call_soon_threadsafe(_settle, answer, result)
            del item, function, answer, result  # an idle thread must not keep a job's values alive


def _settle(answer: Answer, result: tuple[Any, BaseException | None]) -> None:
    if not answer.done():
        answer.set_result(result)
