"""Records that a worker is given and writes back: claims, their jobs, and how each attempt ended."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Final, TypeAlias

import msgspec

from windlass.core.states import Kind
from windlass.store.records.job import Failure, Options
from windlass.store.records.step import KnownSteps

Fence: TypeAlias = tuple[int, int, int]
"""See `ClaimedJob.fence`."""


class ClaimedJob(msgspec.Struct, frozen=True, gc=False):
    """One job of a claim. `fence` is this attempt's own; `id` names the job over all its attempts."""

    id: int
    lane: int
    claim: int
    seq: int
    task: str
    payload: str
    queue: str
    priority: int
    attempt: int
    deaths: int
    options: Options
    enqueued_at: float
    ready_at: float = 0.0
    """When this attempt became ready, by the store's clock."""
    run: int = 0
    """Jobs of one claim with the same number are a run of a key, in the order in which it lists them:
    see `Room`. 0: this one is on its own."""
    known_steps: KnownSteps | None = None
    """Its steps so far [W1]. None: the claim does not say."""
    starts_at: float = 0.0
    """When its tokens are there, by the monotonic clock of this machine: it starts no sooner [F1]."""

    @property
    def fence(self) -> Fence:
        """The proof that a write is about this attempt and no other: its lane, claim and position [C5]."""
        return (self.lane, self.claim, self.seq)


class Claim(msgspec.Struct, frozen=True):
    """A batch of jobs of one lane, leased to one worker. Its id is the fencing token."""

    id: int
    lane: int
    queue: str
    priority: int
    jobs: list[ClaimedJob]


Parts: TypeAlias = dict[int, list[ClaimedJob]]
"""Claimed jobs of parts, by parent."""


def parts_of(claims: Iterable[Claim]) -> dict[str, Parts]:
    """The jobs of parts among those claimed, by queue, in the order of the claims."""
    found: dict[str, Parts] = {}
    for claim in claims:
        for job in claim.jobs:
            part = job.options.part
            if part is not None and part.index >= 0:
                found.setdefault(claim.queue, {}).setdefault(part.parent, []).append(job)
    return found


class Outcome(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """How one claimed attempt ended. `delay` is for the kinds that offer the job again."""

    job: ClaimedJob
    kind: Kind = Kind.SUCCEEDED
    delay: float = 0.0
    error: Failure | None = None
    result: str | None = None
    run_ms: float | None = None
    forget: bool = False
    """SUCCEEDED only: the job's earlier failures are no longer shown [O1]."""
    began: bool = False
    """RELEASED only: its handler had been called, so that the job expires no more [E8]."""
    needs: str | None = None
    """RELEASED only: what its task needs, where nobody has said so of the job and this worker lacks it. The
    job goes to those who have it [K14]."""
    reason: str | None = None
    """DEAD only: why trying again is pointless; without it, the error's own message [O9]."""
    signals: tuple[str, ...] | None = None
    """SNOOZE only, for the timeline: the signals that a handler waits for; empty where it sleeps [W2]."""


class Room(msgspec.Struct, frozen=True):
    """Room of a worker for jobs that a flush may claim."""

    queues: Mapping[str, int]
    """How many jobs of each queue."""
    tokens: Collection[str] = ()
    """Tasks whose jobs need tokens: only a claim takes those [F1]."""
    runs: Mapping[str, int] = {}
    """By queue, how many more jobs of a waiting list may follow each one that a flush claims, to be run one
    after the other in its slot: together they are a run of their key. 0: each job comes on its own."""


class Finished(msgspec.Struct, frozen=True):
    """The answer to a flush: how many outcomes were recorded, were there already, or were refused [C5]."""

    applied: int = 0
    repeated: int = 0
    refused: tuple[int, ...] = ()
    claims: tuple[Claim, ...] = ()
    """Claims made in the same transaction: see `Room`."""


FOR_HOSTS: Final = "@"
"""How the topics begin that are for hosts: alone, queues or slots were changed; with a worker's id behind it,
a job that this one holds should be cancelled."""


class WakeUp(msgspec.Struct, frozen=True):
    """A wake-up, as the listening process of a host forwards it to the others."""

    topics: tuple[str, ...] = ()
    """Queues that may have work, what is for hosts, and whatever else a store's waits listen for."""
    receives: bool = True
    """True if wake-ups arrive at all, so that polls only stand behind them."""
    missed: bool = False
    """True if some may have been missed: look now."""


class Polling(msgspec.Struct, frozen=True):
    """The cost of an idle worker process for the store [K12]."""

    every: float
    """Seconds between two looks for work, at most."""
    wakes: bool
    """True if wake-ups arrive, so that polls only stand behind them."""
    statements: float
    """How many statements a second that makes, about."""
    took: float
    """Seconds that such a statement took, measured."""

    def __str__(self) -> str:
        how = "wake-ups arrive, and" if self.wakes else "no wake-up arrives, so"
        return (
            f"{how} an idle process looks every {self.every:g} s: about {self.statements:.1f} statements/s "
            f"of {self.took * 1e3:.2f} ms each"
        )
