"""The writer: the one thread of a process that writes, with group commit.

Requests that queue up while a commit is under way share the next transaction and its one fsync. Each runs in
a savepoint, so that one that fails does not undo another. No request is answered before the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Final

import apsw

from windlass.store.sqlite.connections.connection import OpenedFile
from windlass.store.sqlite.connections.threads import ConnectionThread, Request

MAX_REQUESTS: Final = 256
LONGEST: Final = 0.025
"""Seconds after which a transaction takes no further request, so that other processes get their turn."""

Run = Callable[[apsw.Connection, Callable[..., Any]], tuple[Any, bool]]
"""Runs an operation to its end: its answer, and whether somebody in this process may be waiting for it."""


class _Undone(Exception):
    """SQLite rolled the whole transaction back, not only the request that failed."""


class Writer(ConnectionThread):
    """Serves requests in shared write transactions."""

    def __init__(
        self,
        file: OpenedFile,
        connect: Callable[[], apsw.Connection],
        run: Run,
        notify: Callable[[], None],
        busy_timeout: float,
    ) -> None:
        super().__init__("windlass-sqlite-writer", file, connect)
        self._run_operation = run
        self._notify = notify
        self._busy_timeout = busy_timeout

    def _handle(self, request: Request) -> None:
        """Serve this request and those that wait behind it, together if all goes well, else each alone."""
        if self._took_shortcut(request):
            self._answer([request])
            return
        batch = [request]
        try:
            notify = self._serve_together(batch)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            self._roll_back()
            if len(batch) > 1:
                for one in batch:
                    self._serve_alone(one)
                return
            request.value, request.error = None, self._cause(error)
            if isinstance(error, apsw.BusyError):
                batch += self._overdue()
                for one in batch:
                    one.error = error
            notify = False
        if notify:
            self._notify()
        self._answer(batch)

    def _took_shortcut(self, request: Request) -> bool:
        """Return whether one statement was enough. Between two statements this thread has to get the
        interpreter back from whoever holds it, which takes milliseconds beside a handler that computes; so a
        checkpoint, the commonest write of a heavy job, should need few of them."""
        if request.shortcut is None or self._put_back or not self._requests.empty():
            return False
        if request.future.cancelled():
            return False
        try:
            return request.shortcut(self._connected())
        except apsw.BusyError as error:
            request.error = error  # it has waited for as long as a request may
            return True
        except Exception:  # noqa: BLE001 - the long way finds the same error, and answers with it
            self._roll_back()
            return False

    def _serve_alone(self, request: Request) -> None:
        notify = False
        request.value = request.error = None
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            notify = self._run(connection, request)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the error is the answer
            self._roll_back()
            request.value, request.error, notify = None, self._cause(error), False
        if notify:
            self._notify()
        self._answer([request])

    def _serve_together(self, batch: list[Request]) -> bool:
        """Run requests in one transaction, adding those that have come meanwhile. True: somebody may be
        waiting for what they did."""
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        notify = self._run(connection, batch[0])
        while len(batch) < MAX_REQUESTS and time.monotonic() - began < LONGEST:
            request = self._next()
            if request is None:
                break
            batch.append(request)
            notify |= self._run(connection, request)
        connection.execute("COMMIT")
        return notify

    def _run(self, connection: apsw.Connection, request: Request) -> bool:
        """Run one request in its savepoint. Raises only where the whole transaction is lost."""
        if request.future.cancelled():
            return False
        connection.execute("SAVEPOINT windlass_call")
        try:
            request.value, notify = self._run_operation(connection, request.work)
        except Exception as error:
            request.error = error
            if not connection.in_transaction:
                raise _Undone from error
            connection.execute("ROLLBACK TO windlass_call")
            connection.execute("RELEASE windlass_call")
            return False
        connection.execute("RELEASE windlass_call")
        return notify

    @staticmethod
    def _cause(error: Exception) -> BaseException:
        """Return the error that the caller should see: not that all was undone, but why."""
        return error.__cause__ or error if isinstance(error, _Undone) else error

    def _roll_back(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            self._disconnect()  # closing undoes the transaction, too, and the next request opens the file

    def _overdue(self) -> list[Request]:
        """The requests that have waited long behind one that found the file locked. Each waiting for the
        whole time-out in its turn would make the last of them wait for ever."""
        overdue: list[Request] = []
        others: list[Request] = []
        while (request := self._next()) is not None:
            late = time.monotonic() - request.since > self._busy_timeout / 2
            (overdue if late else others).append(request)
        self._put_back.extend(others)
        return overdue
