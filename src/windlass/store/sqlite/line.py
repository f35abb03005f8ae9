"""A line: one thread with one connection, which serves calls from any event loop in the order they came.

What a call does is a plain function of the connection; its answer comes back to the caller's loop as a
future. `Writer` and `Reader` say in which kind of transaction the functions run.

A connection must never cross a fork, not even to be closed there, and a child cannot simply open another one:
SQLite's table of the locks this process holds is copied with the fork while the locks themselves are not, so
the child would believe in locks it does not have. Hence every line is closed *before* a fork and opens its
file again on first use, in the parent and in the child (see `fork`).
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import os
import threading
import time
from collections import defaultdict, deque
from collections.abc import Callable, Iterable
from queue import Empty, SimpleQueue
from typing import Any

import apsw

from windlass.errors import ConfigurationError, StoreError
from windlass.store.sqlite import fork
from windlass.store.sqlite.place import Place
from windlass.store.sqlite.trouble import translate


class Call:
    """Work to do, and where its answer goes."""

    __slots__ = ("alone", "error", "future", "loop", "since", "value", "work")

    def __init__(self, work: Callable[..., Any], alone: Callable[[apsw.Connection], bool] | None) -> None:
        self.work = work
        self.alone = alone
        self.loop = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.since = time.monotonic()
        self.value: Any = None
        self.error: BaseException | None = None


class Line:
    """A thread, its connection, and the calls that wait for it."""

    def __init__(self, name: str, place: Place, connect: Callable[[], apsw.Connection]) -> None:
        self._name = name
        self._place = place
        self._path = place.path
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._inherited = False
        self._begin()
        fork.watch(self)

    def _begin(self) -> None:
        """What a process needs of its own: no thread and no lock survives a fork."""
        self._pid = os.getpid()
        self._door = threading.Lock()  # who may put calls in, start the thread or end it
        self._gate = threading.Lock()  # held while the connection is at work
        self._calls: SimpleQueue[Call | None] = SimpleQueue()
        self._waiting: deque[Call] = deque()
        self._thread: threading.Thread | None = None
        self._ending = False

    def submit(
        self, work: Callable[..., Any], alone: Callable[[apsw.Connection], bool] | None = None
    ) -> asyncio.Future[Any]:
        """Queue up work and return the future of its answer. Starts the thread where there is none. `alone`
        is a shorter way for where nothing else waits; False: it was not enough, nothing was done."""
        if self._inherited or self._pid != os.getpid():
            raise ConfigurationError(
                f"{self._path} was open when this process was forked, in a way that bypasses Python's fork "
                "hooks. SQLite cannot be used here: open the store after the fork, or close it before"
            )
        call = Call(work, alone)
        with self._door:
            if self._ending:
                raise StoreError(f"the store at {self._path} is being closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._calls.put(call)
        return call.future

    def stop(self) -> None:
        """Serve what is queued up, close the connection and end the thread. A later call starts it anew."""
        with self._door:
            thread = self._thread
            if thread is None:
                return
            if not self._ending:
                self._ending = True
                self._calls.put(None)
        thread.join()
        with self._door:
            if self._thread is thread:
                self._thread, self._ending = None, False

    # -- the thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            call = self._waiting.popleft() if self._waiting else self._calls.get()
            with self._gate:
                if call is None:
                    self._disconnect()
                    return
                self._handle(call)

    def _handle(self, call: Call) -> None:
        raise NotImplementedError

    def _next(self) -> Call | None:
        """The next call, if one waits."""
        if self._waiting:
            return self._waiting.popleft()
        try:
            call = self._calls.get_nowait()
        except Empty:
            return None
        if call is None:
            self._calls.put(None)  # the end is for `_serve` to see; no call comes after it
        return call

    def _connected(self) -> apsw.Connection:
        self._place.check()
        if self._connection is None:
            self._connection = self._connect()
            self._place.note()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _settle(self, calls: Iterable[Call]) -> None:
        """Hand out answers, one wake-up per event loop."""
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[Call]] = defaultdict(list)
        for call in calls:
            if call.error is not None:
                call.error = translate(call.error, self._path)
            by_loop[call.loop].append(call)
        for loop, answered in by_loop.items():
            with contextlib.suppress(RuntimeError):  # that loop has closed: nobody waits for the answer
                loop.call_soon_threadsafe(_answer, answered)

    # -- forks --------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for the transaction under way and close the file, so that the child inherits nothing."""
        if threading.current_thread() is not self._thread:
            self._gate.acquire()
            self._disconnect()

    def after_fork_in_parent(self) -> None:
        """Go on; the next call opens the file again."""
        if threading.current_thread() is not self._thread:
            self._gate.release()

    def after_fork_in_child(self) -> None:
        """Begin anew without a thread. A connection that came across must stay untouched for ever."""
        if self._connection is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._connection))
            self._inherited = True
        self._begin()


def _answer(calls: list[Call]) -> None:
    """Runs in the caller's loop."""
    for call in calls:
        if call.future.done():
            continue  # its caller was cancelled and has gone
        if call.error is None:
            call.future.set_result(call.value)
        else:
            call.future.set_exception(call.error)
