"""The reader: one thread that looks things up in snapshots, so that no lookup ever waits for a writer."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from windlass.store.sqlite.line import Call, Line
from windlass.store.sqlite.place import Place


class Reader(Line):
    """Serves each call in a read transaction of its own."""

    def __init__(self, place: Place, connect: Callable[[], apsw.Connection]) -> None:
        super().__init__("windlass-sqlite-reader", place, connect)

    def _handle(self, call: Call) -> None:
        if call.future.cancelled():
            return
        try:
            connection = self._connected()
            # The snapshot ends with the call: one that stayed open would keep the WAL from being reset.
            connection.execute("BEGIN")
            try:
                call.value = call.work(connection)
            finally:
                connection.execute("COMMIT")
        except Exception as error:  # noqa: BLE001 - the error is the answer
            call.value, call.error = None, error
        self._settle([call])
