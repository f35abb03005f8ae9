"""A job of the oracle, and all that is known about it."""

from __future__ import annotations

from dataclasses import dataclass, field

from windlass.core.counts import plural
from windlass.core.states import FINISHED, State
from windlass.store import signal_rules
from windlass.store.records import (
    Checkpoint,
    ClaimedJob,
    Emitted,
    Failure,
    JobRecord,
    Options,
    Progress,
    Step,
)

KEPT_FAILURES = 32


@dataclass
class Waiting:
    """What a job waits for."""

    name: str
    signal: str
    number: int
    at: float
    until: float | None
    shape: str | None
    claim: int
    suspended: bool = False
    """Whether its job was put off for it."""


@dataclass(eq=False, kw_only=True)
class Job:
    """A job and all that is known about it."""

    id: int
    number: int
    task: str
    payload: str
    queue: str
    priority: int
    options: Options
    enqueued_at: float
    state: State = State.READY
    attempt: int = 1
    deaths: int = 0
    lane: int = 0
    seq: int = 0
    since: float = 0.0
    run_at: float | None = None
    worker: int | None = None
    claim: int | None = None
    claimed_at: float | None = None
    finished_at: float | None = None
    cancel_requested: bool = False
    reason: str | None = None
    errors: tuple[Failure, ...] = ()
    result: str | None = None
    checkpoint: Checkpoint | None = None
    steps: dict[str, Step] = field(default_factory=dict)
    waits: dict[str, Waiting] = field(default_factory=dict)
    """What it waits for, or has waited for, by step [W2]."""
    signals: list[tuple[str, str]] = field(default_factory=list)
    """Those that it has not taken yet, with their values."""
    stream: list[tuple[Emitted, int]] = field(default_factory=list)
    """What it emitted, with the claims under which."""
    last: Checkpoint | None = None
    """What it had saved when it ended."""
    after: tuple[int, ...] = ()
    """Jobs that it still waits for [P12]."""
    members: list[int] = field(default_factory=list)
    """The jobs of the group that it ends [W4]."""
    failed: set[int] = field(default_factory=set)
    """Jobs that it waited for and that have not succeeded."""
    gate: str | None = None
    """The gate in whose line it stands."""
    passes: dict[str, int] = field(default_factory=dict)
    """The gates it is beyond, each with how much of the gate's room it takes."""
    needs: int = 0
    """The tokens it waits for, in a line for tokens [F1]."""
    tickets: dict[str, int] = field(default_factory=dict)
    """Its places in lines for tokens, which it keeps until it has had them."""
    let_out_at: float = 0.0
    """When it last came to its lane from a gate: tokens are kept for it for a while from then on [F1]."""
    starts_at: float = 0.0
    """When the tokens of its last claim are there."""
    run: int = 0
    """The run of its key that it was handed over with; 0: none."""
    run_gate: str = ""
    """Where that run has its place."""
    line_place: int | None = None
    """Its place in the line of that gate among others that have left it with a run."""
    place: list[Job] | None = None

    @property
    def shown(self) -> State:
        """Its state as callers see it: a parent to be splits while it runs."""
        splitting = self.state is State.RUNNING and self.options.chunked
        return State.SPLITTING if splitting else self.state

    @property
    def ready_at(self) -> float:
        """When its present attempt became ready."""
        return self.since

    def stand(self, place: list[Job] | None) -> None:
        """Leave the old place and go to the back of the new one."""
        if self.place is not None:
            self.place.remove(self)
        self.place, self.gate = place, None
        if place is not None:
            place.append(self)

    @property
    def progress(self) -> Progress | None:
        """How far it is, or was when it ended [P6]."""
        return Progress.of(self.last if self.state in FINISHED else self.checkpoint)

    def record(self) -> JobRecord:
        """The job as callers see it."""
        found = {name: getattr(self, name) for name in JobRecord.__struct_fields__}
        return JobRecord(**{**found, "state": self.shown})

    def claimed(self) -> ClaimedJob:
        """The job as its worker sees it."""
        names = (name for name in ClaimedJob.__struct_fields__ if name != "known_steps")
        return ClaimedJob(**{name: getattr(self, name) for name in names})

    def put_off_waits(self, at: float) -> None:
        """What it waits for does not time out before this time."""
        for wait in self.waits.values():
            if wait.suspended and wait.until is not None:
                wait.until = max(wait.until, at)

    def suspend(self, claim: int, delay: float, now: float) -> float:
        """It is put off: for what it asked under this claim, and for how long [W2]."""
        mine = []
        for wait in self.waits.values():
            wait.suspended = wait.claim == claim
            mine += [wait] if wait.suspended else []
        for wait in mine:
            delay = delay if wait.until is None else min(delay, wait.until - now)
        if any(name == wait.signal for wait in mine for name, _ in self.signals):
            delay = 0.0
        return max(delay, 0.0)

    def suspended_for(self) -> str | None:
        """The reason of a job that waits for signals."""
        mine = [wait for wait in self.waits.values() if wait.suspended]
        return signal_rules.reason((wait.signal, wait.at, wait.until) for wait in mine)

    def waits_for(self) -> str | None:
        """The reason of a job that waits for others."""
        if not self.after:
            return None
        if self.id in self.after:
            return "its group is open for more jobs"
        first, others = min(self.after), len(set(self.after)) - 1
        rest = f" and {plural(others, 'other')}" if others else ""
        return f"waits for job {first}{rest}"

    @property
    def error(self) -> str:
        """The type of its last failure, "" where none is kept."""
        return self.errors[-1].type if self.errors else ""

    def cause(self) -> str | None:
        """What it died of, in a line."""
        if self.state is not State.DEAD:
            return None
        return f"{self.errors[-1].type}: {self.errors[-1].message}" if self.errors else self.reason

    def fail(self, error: Failure, now: float) -> None:
        """Keep a failure of the present attempt, and the last 32 in all [O4]."""
        mine = Failure(error.type, error.message, error.traceback, self.attempt, now)
        self.errors = (*self.errors, mine)[-KEPT_FAILURES:]
