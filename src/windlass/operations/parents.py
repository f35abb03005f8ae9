"""Parents and their parts: how far each is and how all of its parts stand; redriving and cancelling one, and
how many of its parts run at a time [P8] [P9] [P10]."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict
from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal, Self, TypeAlias

import msgspec

from windlass.codec import MARK
from windlass.core.counts import plural
from windlass.core.progress import Look, progress
from windlass.core.states import FINISHED, State
from windlass.errors import JobNotFound
from windlass.operations import walks
from windlass.operations.operation import Help, Limit, Ops, Subject
from windlass.presentation.parents import DRAWN, read_parts, strip_of, with_errors
from windlass.presentation.retries import RetryingShape, retrying_of
from windlass.presentation.text import one_line, parsed, parts_at_a_time, rounded, shaped
from windlass.presentation.waiting import state_in_words
from windlass.store.protocol import Store
from windlass.store.records import JobRecord, ParentRecord, PartRecord

FINAL: Final = -1
"""The index of a finalizer."""
CELLS: Final = 2_000
"""How long a strip is at most."""
LETTERS: Final[dict[State, str]] = dict(zip(DRAWN, "dctrqws", strict=True))
"""The letter of each state, the worst first. A part that is due later is `q` like one that is due now."""
MAX_PARALLEL: Final = 100_000
_RATE_SPAN: Final = 60.0
"""Seconds over which the rate of a parent is computed."""
_MAX_REMEMBERED: Final = 500
"""Parents whose earlier readings are kept."""
parents: Final = Subject("parents")


class ProgressShape(msgspec.Struct, frozen=True):
    """How far a parent is; what cannot be told is null."""

    fraction: float
    percent: int
    unit: Literal["size", "parts"]
    per_second: float | None
    records_per_second: float | None
    seconds_left: float | None

    @classmethod
    def of(cls, *looks: Look) -> ProgressShape:
        """Return the progress from looks at a parent, the latest last."""
        current = progress(looks)
        return cls(
            round(current.fraction, 6),
            current.percent,
            current.unit,
            rounded(current.rate),
            rounded(current.records_rate),
            rounded(current.left),
        )


class ParentShape(msgspec.Struct, frozen=True, kw_only=True):
    """A parent and how far it is [P10]."""

    id: str
    task: str
    queue: str
    state: str
    total: int
    succeeded: int
    dead: int
    cancelled: int
    out: int
    parallel: int | None
    tolerated: int
    size: int
    done: int
    records: int
    final: str | None
    cancel_requested: bool
    reason: str | None
    created_at: str | None
    finished_at: str | None
    progress: ProgressShape
    retrying: RetryingShape | None
    """Parts that failed and will be tried again; null where there are none [M4]."""

    @classmethod
    def of(
        cls, parent: ParentRecord, *looks: Look, retrying: RetryingShape | None = None, **more: Any
    ) -> Self:
        """Return the view of a record, from looks at it, the latest last; `more` is what a larger view
        adds."""
        return shaped(cls, parent, progress=ProgressShape.of(*looks), retrying=retrying, **more)


class PartView(msgspec.Struct, frozen=True, kw_only=True):
    """A part, with its state as text."""

    parent: str
    index: int
    total: int
    span: Any
    size: int
    state: str
    job: str | None
    attempt: int
    done: int
    records: int
    error: str | None
    created_at: str | None
    state_text: str

    @classmethod
    def of(cls, part: PartRecord) -> Self:
        """Return the view of a record. Of a span that a codec has sealed it says only that."""
        span = part.span
        if isinstance(span, dict) and MARK in span:
            span = parsed(msgspec.json.encode(span).decode())
        return shaped(cls, part, span=span, state_text=state_in_words(part))


class ParentView(ParentShape, frozen=True, kw_only=True):
    """A parent with its parts. `strip` has one letter for each part; with more than 2,000 parts a letter
    stands for several and shows the worst. `letters` explains them."""

    final_state: str | None
    """The state of its finalizer; null where there is none, or none any more."""
    strip: str
    strip_parts: int
    """How many parts the strip covers: all of them."""
    strip_each: int
    """How many parts a letter stands for."""
    letters: dict[str, str]
    """Letter → state."""
    states: dict[str, int]
    """State → number of parts."""
    needing: list[PartView]
    """Some of those that need attention, the most urgent first."""


class Parents(msgspec.Struct, frozen=True):
    """Parents, newest first."""

    parents: list[ParentShape]


class Parts(msgspec.Struct, frozen=True):
    """Parts of a parent, by index."""

    parts: list[PartView]


class Redriven(msgspec.Struct, frozen=True):
    """How many parts will run again; a finalizer counts as one."""

    redriven: int


class CancelledParent(msgspec.Struct, frozen=True):
    """A parent that was to be cancelled: `answer` is `cancelled`, `requested`, or `finished` where it had
    ended."""

    parent: ParentShape
    answer: str


class NotSplit(JobNotFound):
    """The job has no parts yet: no worker has split it."""

    def __init__(self, message: str, state: State) -> None:
        super().__init__(message)
        self.state: Final = state


Active: TypeAlias = Annotated[bool, Help("Only unfinished ones.")]
Start: TypeAlias = Annotated[
    int, msgspec.Meta(ge=0, le=1_000_000_000), Help("The index of the first part to list.")
]
PartLimit: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=1_000)]
Parallel: TypeAlias = Annotated[int, msgspec.Meta(ge=1, le=MAX_PARALLEL)] | None


@parents.get("/parents")
async def list_parents(ops: Ops, active: Active = False, limit: Limit = 50) -> Parents:
    """List jobs that were split into parts, newest first, with their progress"""

    async def read(store: Store) -> tuple[list[ParentRecord], dict[int, RetryingShape]]:
        found = await store.parents(active=active, limit=limit)
        return found, await retrying_of(store, found)

    found, retrying = await ops.shared(("parents", active, limit), 1.0, read)
    return Parents(
        [ParentShape.of(each, *_looks(ops, each), retrying=retrying.get(each.id)) for each in found]
    )


@parents.get("/parents/{id}")
async def show_parent(ops: Ops, id: int) -> ParentView:
    """Show a parent: its progress, the state of every part, and which parts need attention"""
    return await _view(ops, await ops.shared(("parent", id), 0.5, lambda store: find(store, id)))


@parents.put("/parents/{id}")
async def set_parent(ops: Ops, id: int, parallel: Parallel) -> ParentView:
    """Change how many parts of a parent may run at a time, even while it runs"""
    return await _view(ops, await change(ops, id, parallel))


@parents.get("/parents/{id}/parts")
async def list_parts(ops: Ops, id: int, start: Start = 0, limit: PartLimit = 100) -> Parts:
    """List parts of a parent, by index"""
    await find(ops.store, id)
    found = await ops.store.parts(id, start=start, limit=limit)
    return Parts([PartView.of(part) for part in await with_errors(ops.store, found)])


@parents.post("/parents/{id}/redrive")
async def redrive_parent(ops: Ops, id: int) -> Redriven:
    """Run the dead and cancelled parts of a parent again, each from its last checkpoint"""
    before = await find(ops.store, id)
    again = await ops.store.redrive(id)
    said = f"{id} unchanged: neither its finalizer nor any part failed; see `windlass parent show {id}`"
    if again:
        only_final = before.dead + before.cancelled == 0 and before.state is State.DEAD
        what = "its finalizer" if only_final else f"{plural(again, 'part')} (a finalizer counts as one)"
        said = f"{id} runs {what} again; {_follow(id)}"
    ops.did(f"redrive: {plural(again, 'part')}", said=said, job=id)
    return Redriven(again)


@parents.command()
async def cancel_parent(ops: Ops, id: int) -> CancelledParent:
    """Cancel a parent: no more of its parts are offered, and those that are out are cancelled"""
    await find(ops.store, id)
    answer = (await walks.act(ops, "cancel", [id]))[id]
    found = await find(ops.store, id)
    if answer == "finished":
        said = f"{id} has already ended, {found.state}; nothing was changed"
    elif found.state in FINISHED:
        said = f"{id} {found.state}; `windlass parent redrive {id}` would go on with it"
    else:
        said = f"{id} is being cancelled and waits for {plural(found.out, 'part')} to stop; {_follow(id)}"
    ops.did(f"cancel: {answer}", said=said, job=id)
    retrying = (await retrying_of(ops.store, [found])).get(id)
    return CancelledParent(ParentShape.of(found, *_looks(ops, found), retrying=retrying), answer)


async def change(ops: Ops, id: int, parallel: int | None) -> ParentRecord:
    """Change how many parts of a parent may run at a time; handles call it, too. Raises JobNotFound."""
    found = await ops.store.set_parent(id, parallel=parallel) or await find(ops.store, id)
    if found.state in FINISHED:
        counts = "it has ended, so this counts when it is redriven"
    else:
        counts = f"{found.out:,} {'is' if found.out == 1 else 'are'} out now; see `windlass parent show {id}`"
    at_a_time = parts_at_a_time(found.parallel)
    ops.did(f"set: {at_a_time}", said=f"{id} runs {at_a_time}; {counts}", job=id)
    return found


async def find(store: Store, id: int) -> ParentRecord:
    """Return a parent. Raises JobNotFound, which says what the id is instead; NotSplit where a worker will
    split its job."""
    parent = await store.parent(id)
    if parent is None:
        raise not_a_parent(id, await store.job(id))
    return parent


def not_a_parent(id: int, job: JobRecord | None) -> JobNotFound:
    """Say what an id is that names no parent."""
    if job is None:
        return JobNotFound(
            f"no parent {id}: it never existed, was deleted, or its retention has passed; "
            "see `windlass parents`"
        )
    part, see = job.options.part, f"see `windlass job show {id}`"
    if part is not None:
        what = "the finalizer" if part.index == FINAL else f"part {part.index} (from 0) of {part.total}"
        return JobNotFound(
            f"job {id} is {what} of parent {part.parent}; see `windlass parent show {part.parent}`"
        )
    if not job.options.chunked:
        task = one_line(job.task)
        return JobNotFound(f"job {id} of task {task} is a plain job: it was not split into parts; {see}")
    if job.state in FINISHED:
        return JobNotFound(f"job {id} has no parts: it ended {job.state} before it was split; {see}")
    until = f"until a worker of queue {one_line(job.queue)} has split it"
    return NotSplit(f"job {id} is {job.state} and has no parts {until}; {see}", job.state)


def strip(states: Sequence[State], cells: int = CELLS) -> tuple[str, int]:
    """Return the strip of some parts, and how many of them a letter stands for."""
    worst, each = strip_of(states, cells)
    return "".join(LETTERS[state] for state in worst), each


def rate_in_words(parent: ParentShape) -> str | None:
    """Return its rate in records where its parts count any; else in units of size, whatever those are, or in
    parts."""
    current = parent.progress
    if parent.records and current.records_per_second is not None:
        return f"{_number(current.records_per_second)} records/s"
    if current.per_second is None:
        return None
    return f"{_number(current.per_second)} {'units' if current.unit == 'size' else 'parts'}/s"


async def _view(ops: Ops, parent: ParentRecord) -> ParentView:
    """Return a parent with its parts. The more a read of these costs, the less often it is done."""

    async def read_parent(store: Store) -> tuple[RetryingShape | None, JobRecord | None]:
        final = None if parent.final is None else await store.job(parent.final)
        return (await retrying_of(store, [parent])).get(parent.id), final

    retrying, final = await ops.shared(("beside", parent.id), 1.0, read_parent)
    ttl = 1.0 + parent.total / 50_000 + (0.0 if parent.finished_at is None else 10.0)
    key = ("parts", parent.id, parent.finished_at)
    return ParentView.of(
        parent,
        *_looks(ops, parent),
        retrying=retrying,
        final_state=None if final is None else str(final.state),
        letters={letter: str(state) for state, letter in LETTERS.items()},
        **await ops.shared(key, ttl, lambda store: _read_strip(store, parent.id)),
    )


async def _read_strip(store: Store, parent: int) -> dict[str, Any]:
    """Read all parts of a parent, for the fields of its view."""
    parts = await read_parts(store, parent)
    drawn, each = strip(parts.states)
    return {
        "strip": drawn,
        "strip_parts": len(parts.states),
        "strip_each": each,
        "states": {str(state): n for state, n in Counter(parts.states).items()},
        "needing": [PartView.of(part) for part in parts.needing],
    }


def _looks(ops: Ops, parent: ParentRecord) -> list[Look]:
    """Return the readings of a parent over the last minute, this one included."""
    kept: OrderedDict[int, list[Look]] = ops.memory.setdefault("parents", OrderedDict())
    readings, now = kept.pop(parent.id, []), time.time()
    if not readings or now - readings[-1][0] >= 1.0:
        readings.append((now, parent))
    else:
        readings[-1] = (readings[-1][0], parent)
    while len(readings) > 2 and readings[1][0] < now - _RATE_SPAN:
        del readings[0]
    kept[parent.id] = readings
    while len(kept) > _MAX_REMEMBERED:
        kept.popitem(last=False)
    return list(readings)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def _follow(id: int) -> str:
    return f"follow it with `windlass parent show {id} --watch`"
