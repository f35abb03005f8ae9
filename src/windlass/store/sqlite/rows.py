"""The words of the job table: what its state numbers mean, what a row looks like in Python, its JSON columns.

A row's `state` does not tell ready from running: the cursor of its lane does (see the migration).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import apsw
import msgspec

from windlass.core.ids import MAX_SEQ, SEQ_BITS
from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import State
from windlass.store.records import DEFAULT_OPTIONS, Failure, NewJob, Options, Progress
from windlass.store.rows import RowCodec

PLAIN: Final = 2
BOUND: Final = 3
SUCCEEDED: Final = 4
DEAD: Final = 5
CANCELLED: Final = 6
SCHEDULED: Final = 7
RETRYING: Final = 8
HELD: Final = 9
WAITING: Final = 10

EXPIRED: Final = 11
"""Only in counts of what has ended: the jobs themselves are cancelled [E8]."""

OFFERED: Final = (PLAIN, BOUND)
ENDED: Final = (SUCCEEDED, DEAD, CANCELLED)
DEFERRED: Final = (SCHEDULED, RETRYING)
STATES: Final = {
    SUCCEEDED: State.SUCCEEDED,
    DEAD: State.DEAD,
    CANCELLED: State.CANCELLED,
    SCHEDULED: State.SCHEDULED,
    RETRYING: State.RETRYING,
    HELD: State.READY,
    WAITING: State.WAITING,
}
ENDS: Final = {**{state: STATES[state].value for state in ENDED}, EXPIRED: "expired"}
"""The counted ends."""
KEPT_FAILURES: Final = 32


class _Type(msgspec.Struct, frozen=True):
    """The type of a failure alone: its traceback is nearly all of it."""

    type: str


encode: Final = msgspec.json.Encoder().encode
decode_options: Final = lru_cache(4096)(msgspec.json.Decoder(Options).decode)
"""Shared by jobs that have them alike, as those of a key do: nobody changes anything in them."""
_decode_failures = msgspec.json.Decoder(tuple[Failure, ...]).decode
_decode_types = msgspec.json.Decoder(tuple[_Type, ...]).decode
decode_new_job: Final = msgspec.json.Decoder(NewJob).decode
_decode_progress = msgspec.json.Decoder(tuple[int | None, int | None, float]).decode
decode_names: Final = msgspec.json.Decoder(tuple[str, ...]).decode


@dataclass(slots=True)
class Row:
    """A job as the operations off the hot path handle it; everything about where it stands."""

    pos: int
    lane: int
    state: int
    touched_at: float
    attempt: int
    deaths: int
    options_json: str | None
    own_id: int | None
    cancel: int | None
    errors_json: str | None
    task: str
    gate: str | None
    need: int | None

    @property
    def id(self) -> int:
        """The job's id: the place where it was inserted."""
        return self.pos if self.own_id is None else self.own_id

    @property
    def seq(self) -> int:
        """Its place in the lane it stands in."""
        return self.pos & MAX_SEQ

    @property
    def aside(self) -> bool:
        """Return whether it stands in lane 0, without a place in its lane."""
        return self.pos >> SEQ_BITS == 0

    @property
    def options(self) -> Options:
        return readable_options(self.options_json)


@dataclass(frozen=True, slots=True)
class Ending:
    """A job that has just ended, with what those need to know who were waiting for that."""

    id: int
    state: int
    attempt: int
    options: Options
    errors_json: str | None
    reason: str | None
    result: str | None
    saved: tuple[Any, ...] | None
    """Its last checkpoint: data, done, total, at."""
    rerun: NewJob | None
    """The job that begins now, and comes after other jobs itself [E6] [P12]."""


def readable_options(text: str | None) -> Options:
    """A job's options, or the default where the text is broken: such a job can still be shown and removed.
    A claim does not use this: it makes the job dead instead [fault 17]."""
    if text is None:
        return DEFAULT_OPTIONS
    try:
        return decode_options(text)
    except READ_ERRORS:
        return DEFAULT_OPTIONS


def ready_at(enqueued_at: float, touched_at: float) -> float:
    """When a job became ready that has left the place where it was enqueued: after that, also where the clock
    of a test stands still. By this its run knows that one before it may have done steps [W1]."""
    return touched_at if touched_at != enqueued_at else math.nextafter(enqueued_at, math.inf)


record_of: Final = RowCodec(
    {
        bool: bool,
        State: STATES.__getitem__,
        Options: readable_options,
        Progress: lambda text: Progress(*_decode_progress(text)),
    }
).record_of


def has_keys(text: str | None) -> bool:
    """Return whether the end of a job has more to do than to write its state, as its options say."""
    if text is None or ('"unique_key":' not in text and '"part":' not in text):
        return False
    options = readable_options(text)
    return options.unique_key is not None or options.part is not None


def options_json(options: Options) -> str | None:
    """The stored form of options: nothing at all where all is default."""
    return None if options == DEFAULT_OPTIONS else encode(options).decode()


def failures(text: str | None) -> tuple[Failure, ...]:
    """The failures kept with a job."""
    return _decode_failures(text) if text else ()


def last_error(text: str | None) -> str:
    """The type of the last failure kept with a job, "" for none."""
    kept = _decode_types(text) if text else ()
    return kept[-1].type if kept else ""


def with_failure(row: Row, error: Failure, now: float) -> str:
    """The row's failures and one more of its present attempt: the last 32 in all [O4]."""
    mine = Failure(error.type, error.message, error.traceback, row.attempt, now)
    return encode((*failures(row.errors_json), mine)[-KEPT_FAILURES:]).decode()


Bindings = tuple[Any, ...]


def fetch(connection: apsw.Connection, sql: str, bindings: Bindings = ()) -> list[tuple[Any, ...]]:
    """Run a statement to its end and return its rows."""
    return connection.execute(sql, bindings).fetchall()


def named(connection: apsw.Connection, sql: str, bindings: Bindings = ()) -> list[dict[str, Any]]:
    """Run a statement and return each row by the names of its columns: for what others are shown, not for the
    hot path."""
    cursor = connection.execute(sql, bindings)
    return [dict(zip((name for name, *_ in cursor.getdescription()), row, strict=True)) for row in cursor]
