"""A thread that owns a connection and serves requests from any event loop in the order they came.

A request is a plain function of the connection; its answer comes back to the caller's loop as a future.
`Reader` and `writer.Writer` say in which kind of transaction the functions run.

A connection must never cross a fork, not even to be closed there, and a child cannot simply open another one:
SQLite's table of the locks this process holds is copied with the fork while the locks themselves are not, so
the child would believe in locks it does not have. Hence every connection is closed *before* a fork, and its
thread opens the file again on first use, in the parent and in the child.
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
from typing import Any, Final, Protocol
from weakref import WeakSet

import apsw

from windlass.errors import ConfigurationError, StoreError
from windlass.store.sqlite.connections.connection import OpenedFile
from windlass.store.sqlite.connections.errors import translate

Shortcut = Callable[[apsw.Connection], bool]
"""A request in one statement, which is its own transaction. False: that was not enough, nothing was done."""


class Request:
    """Work to do, and where its answer goes."""

    __slots__ = ("error", "future", "loop", "shortcut", "since", "value", "work")

    def __init__(self, work: Callable[..., Any], shortcut: Shortcut | None) -> None:
        self.work: Final = work
        self.shortcut: Final = shortcut
        self.loop: Final = asyncio.get_running_loop()
        self.future: asyncio.Future[Any] = self.loop.create_future()
        self.since: Final = time.monotonic()
        self.value: Any = None
        self.error: BaseException | None = None


class ConnectionThread:
    """A thread, its connection, and the requests that wait for it."""

    def __init__(self, name: str, file: OpenedFile, connect: Callable[[], apsw.Connection]) -> None:
        self._name = name
        self._file = file
        self._connect = connect
        self._connection: apsw.Connection | None = None
        self._inherited = False
        self._begin()
        watch_forks(self)

    def _begin(self) -> None:
        """Make what each process needs of its own: no thread and no lock survives a fork."""
        self._pid = os.getpid()
        self._intake = threading.Lock()  # who may put requests in, start the thread or end it
        self._at_work = threading.Lock()  # held while the connection is in use
        self._requests: SimpleQueue[Request | None] = SimpleQueue()
        self._put_back: deque[Request] = deque()  # taken from the queue, and still to be served
        self._thread: threading.Thread | None = None
        self._ending = False

    def submit(self, work: Callable[..., Any], shortcut: Shortcut | None = None) -> asyncio.Future[Any]:
        """Queue up work and return the future of its answer. Starts the thread where there is none. The
        shortcut is tried where nothing else waits."""
        if self._inherited or self._pid != os.getpid():
            raise ConfigurationError(
                f"{self._file.path} was open when this process was forked, in a way that bypasses Python's "
                "fork hooks. SQLite cannot be used here: open the store after the fork, or close it before"
            )
        request = Request(work, shortcut)
        with self._intake:
            if self._ending:
                raise StoreError(f"the store at {self._file.path} is being closed")
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name=self._name, daemon=True)
                self._thread.start()
            self._requests.put(request)
        return request.future

    def stop(self) -> None:
        """Serve what is queued up, close the connection and end the thread. The next request starts it."""
        with self._intake:
            thread = self._thread
            if thread is None:
                return
            if not self._ending:
                self._ending = True
                self._requests.put(None)
        thread.join()
        with self._intake:
            if self._thread is thread:
                self._thread, self._ending = None, False

    # -- the thread ---------------------------------------------------------------------------------------

    def _serve(self) -> None:
        while True:
            request = self._put_back.popleft() if self._put_back else self._requests.get()
            with self._at_work:
                if request is None:
                    self._disconnect()
                    return
                self._handle(request)

    def _handle(self, request: Request) -> None:
        raise NotImplementedError

    def _next(self) -> Request | None:
        """The next request, if one waits."""
        if self._put_back:
            return self._put_back.popleft()
        try:
            request = self._requests.get_nowait()
        except Empty:
            return None
        if request is None:
            self._requests.put(None)  # the end is for `_serve` to see; no request comes after it
        return request

    def _connected(self) -> apsw.Connection:
        self._file.check()
        if self._connection is None:
            self._connection = self._connect()
            self._file.opened()
        return self._connection

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _answer(self, requests: Iterable[Request]) -> None:
        """Hand out answers, one wake-up per event loop."""
        by_loop: defaultdict[asyncio.AbstractEventLoop, list[Request]] = defaultdict(list)
        for request in requests:
            if request.error is not None:
                request.error = translate(request.error, self._file.path)
            by_loop[request.loop].append(request)
        for loop, answered in by_loop.items():
            with contextlib.suppress(RuntimeError):  # that loop has closed: nobody waits for the answer
                loop.call_soon_threadsafe(_set_futures, answered)

    # -- forks --------------------------------------------------------------------------------------------

    def before_fork(self) -> None:
        """Wait for the transaction under way and close the file, so that the child inherits nothing."""
        if threading.current_thread() is not self._thread:
            self._at_work.acquire()
            self._disconnect()

    def after_fork_in_parent(self) -> None:
        """Go on; the next request opens the file again."""
        if threading.current_thread() is not self._thread:
            self._at_work.release()

    def after_fork_in_child(self) -> None:
        """Begin anew without a thread."""
        if self._connection is not None:
            leave_untouched(self._connection)
            self._inherited = True
        self._begin()


class Reader(ConnectionThread):
    """Serves each request in a read transaction of its own, so that no lookup ever waits for a writer."""

    def __init__(self, file: OpenedFile, connect: Callable[[], apsw.Connection]) -> None:
        super().__init__("windlass-sqlite-reader", file, connect)

    def _handle(self, request: Request) -> None:
        if request.future.cancelled():
            return
        try:
            connection = self._connected()
            # The snapshot ends with the request: one that stayed open would keep the WAL from being reset.
            connection.execute("BEGIN")
            try:
                request.value = request.work(connection)
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the error is the answer
            request.value, request.error = None, error
        self._answer([request])


def _set_futures(requests: list[Request]) -> None:
    """Runs in the caller's loop."""
    for request in requests:
        if request.future.done():
            continue  # its caller was cancelled and has gone
        if request.error is None:
            request.future.set_result(request.value)
        else:
            request.future.set_exception(request.error)


# -- forks of this process ----------------------------------------------------------------------------------


class HasConnections(Protocol):
    """An object that has to know of a fork."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_watching: WeakSet[HasConnections] = WeakSet()
_notified: list[HasConnections] = []
_one_fork_at_a_time = threading.Lock()


def watch_forks(owner: HasConnections) -> None:
    """Call this object before and after every fork, for as long as it lives."""
    _watching.add(owner)


def leave_untouched(connection: apsw.Connection) -> None:
    """Keep a connection that came across a fork from ever being closed."""
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


def _before_fork() -> None:
    _one_fork_at_a_time.acquire()
    _notified[:] = list(_watching)
    for owner in _notified:
        owner.before_fork()


def _in_parent() -> None:
    for owner in _notified:
        owner.after_fork_in_parent()
    _notified.clear()
    _one_fork_at_a_time.release()


def _in_child() -> None:
    for owner in list(_watching):
        owner.after_fork_in_child()
    _notified.clear()
    if _one_fork_at_a_time.locked():
        _one_fork_at_a_time.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_in_parent, after_in_child=_in_child)
