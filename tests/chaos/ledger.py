"""What really happened, written down by those who did it, and the check that it adds up.

Every process appends to a file of its own, one event a line, written out at once, so that a killed process
leaves all but what it was doing. Times are of the machine's monotonic clock, which all processes share. The
check knows nothing of stores or SQL: it only reads who was told what.

    lost        committed, but never ended
    twice       one position given to two claims, two ends of one job, or a job claimed while another held it
    phantom     claimed, though nobody was told that it exists
"""

import time
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal, Self

import msgspec

from windlass.core.states import TERMINAL, Kind
from windlass.store.records import Claim, Outcome


class Enqueued(msgspec.Struct, frozen=True, tag=True):
    """The store acknowledged these jobs: the commit was answered."""

    ids: list[int]
    at: float


class Undone(msgspec.Struct, frozen=True, tag=True):
    """These jobs were enqueued in a transaction that was rolled back."""

    ids: list[int]


class Claimed(msgspec.Struct, frozen=True, tag=True):
    """A worker was given these jobs, (seq, id, attempt) each, under this fence. To hold is the effect."""

    worker: int
    claim: int
    lane: int
    jobs: list[tuple[int, int, int]]
    at: float


class Ended(msgspec.Struct, frozen=True, tag=True):
    """A flush of these jobs, (id, kind) each, was sent at `sent` and answered at `at`."""

    worker: int
    flush: int
    jobs: list[tuple[int, Kind]]
    sent: float
    at: float
    applied: int
    refused: list[int]


class Taken(msgspec.Struct, frozen=True, tag=True):
    """A worker died holding these jobs and they were taken back from it, from `sent` on."""

    worker: int
    ids: list[int]
    sent: float


Event = Enqueued | Undone | Claimed | Ended | Taken
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Event).decode


class Ledger:
    """One process's file. The fold over all files is `read` and `Balance`."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("ab", buffering=0)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()

    def _write(self, event: Event) -> None:
        self._file.write(_encode(event) + b"\n")

    def enqueued(self, ids: Sequence[int]) -> None:
        self._write(Enqueued(list(ids), time.monotonic()))

    def undone(self, ids: Sequence[int]) -> None:
        self._write(Undone(list(ids)))

    def claimed(self, worker: int, claims: Iterable[Claim]) -> None:
        for claim in claims:
            jobs = [(job.seq, job.id, job.attempt) for job in claim.jobs]
            self._write(Claimed(worker, claim.id, claim.lane, jobs, time.monotonic()))

    def ended(
        self,
        worker: int,
        flush: int,
        outcomes: Sequence[Outcome],
        sent: float,
        applied: int,
        refused: Sequence[int],
    ) -> None:
        jobs = [(outcome.job.id, outcome.kind) for outcome in outcomes]
        self._write(Ended(worker, flush, jobs, sent, time.monotonic(), applied, list(refused)))

    def taken(self, worker: int, ids: Sequence[int], sent: float) -> None:
        self._write(Taken(worker, list(ids), sent))


def read(folder: Path) -> Iterator[Event]:
    """Every event of every file. The last line of a killed process may be torn: it did not happen."""
    for path in sorted(folder.glob("*.ledger")):
        for line in path.read_bytes().splitlines(keepends=True):
            if line.endswith(b"\n"):
                yield _decode(line)


class Step(msgspec.Struct, order=True):
    """One thing that happened to a job, in order of time."""

    at: float
    what: Literal["claimed", "ended", "taken"]
    kind: str = ""
    attempt: int = 0


class Balance:
    """The books of a run: what was promised, and what came of it."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.committed: set[int] = set()
        self.undone: set[int] = set()
        self.steps: dict[int, list[Step]] = defaultdict(list)
        self.places: Counter[tuple[int, int]] = Counter()
        self.refused: list[int] = []
        self.kinds: Counter[str] = Counter()
        self._flushes: set[tuple[int, int]] = set()
        for event in events:
            self._add(event)
        for steps in self.steps.values():
            steps.sort()

    def _add(self, event: Event) -> None:
        match event:
            case Enqueued():
                self.committed.update(event.ids)
            case Undone():
                self.undone.update(event.ids)
            case Claimed():
                for seq, job, attempt in event.jobs:
                    self.places[event.lane, seq] += 1
                    self.steps[job].append(Step(event.at, "claimed", attempt=attempt))
            case Ended():
                self._end(event)
            case Taken():
                for job in event.ids:
                    self.steps[job].append(Step(event.sent, "taken"))

    def _end(self, event: Ended) -> None:
        """A flush counts once, however often it was sent; the same number again must have changed nothing."""
        self.refused += event.refused
        if (event.worker, event.flush) in self._flushes:
            return
        self._flushes.add((event.worker, event.flush))
        for job, kind in event.jobs:
            self.kinds[kind] += 1
            self.steps[job].append(Step(event.sent, "ended", kind))

    @property
    def finished(self) -> set[int]:
        """Jobs with at least one end for good."""
        return {job for job, steps in self.steps.items() if any(_final(step) for step in steps)}

    @property
    def lost(self) -> set[int]:
        return self.committed - self.finished

    @property
    def phantom(self) -> set[int]:
        return self.steps.keys() - self.committed

    @property
    def twice(self) -> set[int | tuple[int, int]]:
        """Positions claimed twice, and jobs whose story is not claim, end, claim, …, one end for good."""
        places: set[int | tuple[int, int]] = {place for place, n in self.places.items() if n > 1}
        return places | {job for job, steps in self.steps.items() if not _in_turn(steps)}

    def check(self) -> None:
        """Committed = finished, none lost, none twice, no phantom, nothing refused."""
        assert not self.committed & self.undone, "one id was both committed and rolled back"
        assert not self.lost, f"{len(self.lost)} jobs lost, such as {_some(self.lost, self.steps)}"
        assert not self.twice, f"{len(self.twice)} twice, such as {_some(self.twice, self.steps)}"
        assert not self.phantom, f"{len(self.phantom)} phantoms, such as {_some(self.phantom, self.steps)}"
        assert not self.refused, f"outcomes refused though the claim was held: {self.refused[:5]}"
        assert self.finished == self.committed


def _final(step: Step) -> bool:
    return step.what == "ended" and step.kind in TERMINAL


def _in_turn(steps: list[Step]) -> bool:
    """Claims and ends take turns, the last one is for good, and only a retry charges an attempt."""
    attempt = 1
    held = False
    over = False
    for step in steps:
        if step.what == "claimed":
            if held or over or step.attempt != attempt:
                return False
            held = True
        else:
            if not held:
                return False
            held = False
            over = _final(step)
            attempt += step.kind == Kind.RETRY
    return True


def _some(jobs: Iterable[int | tuple[int, int]], steps: dict[int, list[Step]]) -> str:
    some = list(jobs)[:3]
    return "; ".join(f"{job}: {steps.get(job, []) if isinstance(job, int) else 'a position'}" for job in some)
