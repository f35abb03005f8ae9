"""The writer: the one thread of a process that writes, with group commit.

Calls that queue up while a commit is under way share the next transaction and its one fsync. Each runs in a
savepoint, so that one that fails does not undo another. No call is answered before the commit.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

import apsw

from windlass.store.sqlite.line import Call, Line
from windlass.store.sqlite.place import Place
from windlass.store.sqlite.settle import complete
from windlass.store.sqlite.transaction import Transaction

MOST_CALLS: Final = 256
LONGEST: Final = 0.025
"""Seconds after which a transaction takes no further call, so that other processes get their turn."""


class _Undone(Exception):
    """SQLite rolled the whole transaction back, not only the call that failed."""


class Writer(Line):
    """Serves calls in shared write transactions."""

    def __init__(
        self,
        place: Place,
        connect: Callable[[], apsw.Connection],
        transaction: Callable[[apsw.Connection], Transaction],
        committed: Callable[[], None],
        patience: float,
    ) -> None:
        super().__init__("windlass-sqlite-writer", place, connect)
        self._transaction = transaction
        self._committed = committed
        self._patience = patience

    def _handle(self, call: Call) -> None:
        """Serve this call and those that wait behind it, together if all goes well, else each alone."""
        if call.alone is not None and not self._waiting and self._calls.empty() and self._at_once(call):
            self._settle([call])
            return
        batch = [call]
        try:
            news = self._together(batch)
        except Exception as error:  # noqa: BLE001 - the error is the answer
            self._roll_back()
            if len(batch) > 1:
                for one in batch:
                    self._handle_alone(one)
                return
            call.value, call.error = None, self._cause(error)
            if isinstance(error, apsw.BusyError):
                batch += self._tired()
                for one in batch:
                    one.error = error
            news = False
        if news:
            self._committed()
        self._settle(batch)

    def _at_once(self, call: Call) -> bool:
        """The shorter way: one statement, which is its own transaction. Between two statements this thread
        has to get the interpreter back from whoever holds it, which takes milliseconds beside a handler that
        computes; so a checkpoint, the commonest write of a heavy job, should need few of them."""
        if call.alone is None or call.future.cancelled():
            return False
        try:
            return call.alone(self._connected())
        except apsw.BusyError as error:
            call.error = error  # it has waited for as long as a call may
            return True
        except Exception:  # noqa: BLE001 - the long way finds the same trouble, and answers with it
            self._roll_back()
            return False

    def _handle_alone(self, call: Call) -> None:
        news = False
        call.value = call.error = None
        try:
            connection = self._connected()
            connection.execute("BEGIN IMMEDIATE")
            news = self._run(connection, call)
            connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the error is the answer
            self._roll_back()
            call.value, call.error, news = None, self._cause(error), False
        if news:
            self._committed()
        self._settle([call])

    def _together(self, batch: list[Call]) -> bool:
        """Run calls in one transaction, adding those that have come meanwhile. True: somebody may be waiting
        for what they did."""
        connection = self._connected()
        connection.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        news = self._run(connection, batch[0])
        while len(batch) < MOST_CALLS and time.monotonic() - began < LONGEST:
            call = self._next()
            if call is None:
                break
            batch.append(call)
            news |= self._run(connection, call)
        connection.execute("COMMIT")
        return news

    def _run(self, connection: apsw.Connection, call: Call) -> bool:
        """Run one call in its savepoint. Raises only where the whole transaction is lost."""
        if call.future.cancelled():
            return False
        connection.execute("SAVEPOINT windlass_call")
        transaction = self._transaction(connection)
        try:
            call.value = call.work(transaction)
            complete(transaction)
        except Exception as error:
            call.error = error
            if not connection.in_transaction:
                raise _Undone from error
            connection.execute("ROLLBACK TO windlass_call")
            connection.execute("RELEASE windlass_call")
            return False
        connection.execute("RELEASE windlass_call")
        return transaction.news

    @staticmethod
    def _cause(error: Exception) -> BaseException:
        """What the caller should hear: not that all was undone, but why."""
        return error.__cause__ or error if isinstance(error, _Undone) else error

    def _roll_back(self) -> None:
        connection = self._connection
        try:
            if connection is not None and connection.in_transaction:
                connection.execute("ROLLBACK")
        except apsw.Error:
            self._disconnect()  # closing undoes the transaction, too, and the next call opens the file anew

    def _tired(self) -> list[Call]:
        """The calls that have waited long behind one that found the file locked. Each waiting for the whole
        time-out in its turn would make the last of them wait for ever."""
        tired: list[Call] = []
        patient: list[Call] = []
        while (call := self._next()) is not None:
            old = time.monotonic() - call.since > self._patience / 2
            (tired if old else patient).append(call)
        self._waiting.extend(patient)
        return tired
