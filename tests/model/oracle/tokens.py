"""A budget of the memory store, and how claims take its tokens [F1] [F7]. The arithmetic is that of
`core.flow.bucket` and `core.flow.breaker`; the operations on budgets are in `budgets`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from tests.model.oracle.gates import enter, is_budget, leave_slots, wait_at
from tests.model.oracle.job import Job
from windlass.core.clock import SLIP
from windlass.core.flow.breaker import Breaker
from windlass.core.flow.bucket import AHEAD, PROMISED_FOR, Bucket
from windlass.core.flow.gates import budget_gate, over_gate
from windlass.store.budgets import bucket_key, tokens_of
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord, Need

if TYPE_CHECKING:
    from tests.model.oracle.tables import Tables


@dataclass(eq=False)
class Budget:
    """A budget: what was set, its buckets by key, and its breaker."""

    settings: NewBudget
    breaker: Breaker
    buckets: dict[str, Bucket] = field(default_factory=dict)
    drain_of_all: Bucket | None = None
    """A bucket that the drains of all buckets have left: a key that is new finds it like that, too."""

    @classmethod
    def full(cls, settings: NewBudget) -> Budget:
        """A new budget."""
        return cls(settings, Breaker(settings.breaker, settings.breaker_pause))

    def bucket(self, key: str, now: float) -> Bucket:
        """One of its buckets; one that nobody has used yet is full."""
        if key not in self.buckets:
            own, drain = self.settings, self.drain_of_all
            new = Bucket.full(own.rate, own.burst, now)
            new = new if drain is None else new.after(drain)
            self.buckets[key] = new.capped(own.cap, own.cap_per, own.cap_zone)
        self.buckets[key] = self.buckets[key].resumed(now)
        return self.buckets[key]

    def grants(self, key: str, n: int, now: float) -> bool:
        """Whether it would grant so much now. What a breaker allows it counts in grants, not in tokens: a
        probe may need more than one."""
        return self.breaker.allows(now) != 0 and self.bucket(key, now).take(n, now) is not None

    def soon(self, key: str, n: int, now: float, reserved: int = 0) -> float:
        """Seconds until a claim has so much beside what is reserved; inf where it cannot book that. Unless
        the breaker is closed it must be there."""
        if self.breaker.allows(now) is not None:
            return 0.0 if self.grants(key, n + reserved, now) else math.inf
        return self.bucket(key, now).soon(n, now, reserved)

    def take(self, key: str, n: int, now: float) -> None:
        """Take what it grants, or will soon."""
        self.buckets[key], self.breaker = self.bucket(key, now).book(n, now), self.breaker.granted(now)

    def settle(self, key: str, more: int, now: float, age: float) -> None:
        """Correct a bucket by what was really used."""
        self.buckets[key] = self.bucket(key, now).settled(more, now, age)

    def wait(self, key: str, n: float, now: float, promised: float = 0.0, ahead: float = 0.0) -> float:
        """Seconds until it may grant so much beside what was promised, or a claim may book it; inf where it
        never will."""
        ahead = ahead if self.breaker.allows(now) is None else 0.0
        return max(self.bucket(key, now).wait(n, now, promised, ahead), self.breaker.left(now))

    def change(self, settings: NewBudget, named: Set[str], now: float) -> None:
        """Take other settings from now on, those named; what has grown so far counts by the old ones."""
        for key, bucket in self.buckets.items():
            grows = named & {"rate", "burst"}
            grown = bucket.changed(settings.rate, settings.burst, now) if grows else bucket
            self.buckets[key] = grown.capped(settings.cap, settings.cap_per, settings.cap_zone)
        self.settings = settings
        self.breaker = msgspec.structs.replace(
            self.breaker, threshold=settings.breaker, pause=settings.breaker_pause
        )

    def drain(self, pause: float, key: str | None, now: float) -> None:
        """Empty one bucket, or all, for a while."""
        for name in list(self.buckets) if key is None else [key]:
            self.buckets[name] = self.bucket(name, now).drained(pause, now)
        if key is None:
            drained = self.drain_of_all or Bucket.full(0.0, 0.0, now)
            self.drain_of_all = drained.drained(pause, now)

    def tidy(self, now: float) -> None:
        """Forget buckets that are full again: a new one is no different."""
        for key, bucket in list(self.buckets.items()):
            if bucket.available(now) >= bucket.burst and bucket.used_until <= now:
                del self.buckets[key]

    def record(self, now: float, waiting: int) -> BudgetRecord:
        """The budget as callers see it."""
        bucket, state = self.bucket("", now).refilled(now), self.breaker.state(now)
        return BudgetRecord(
            **msgspec.structs.asdict(self.settings),
            tokens=max(0.0, bucket.tokens),
            paused_for=max(bucket.paused_until - now, self.breaker.left(now)),
            state=state,
            failures=self.breaker.failures,
            used=bucket.used,
            used_until=bucket.used_until,
            waiting=waiting,
        )


def take_for(tables: Tables, job: Job, needs: Sequence[Need], now: float) -> bool:
    """Take the tokens of a job that is to be claimed, all or none. Where some are not there, or others stand
    in line for them, it goes to the end of that line."""
    wanted = _wanted(job, needs)
    waits = [0.0]
    for (name, key), n in wanted.items():
        waits.append(_soon(tables, job, name, key, n, now))
        if waits[-1] == math.inf:
            _line_up(tables, job, budget_gate(name, key), n, now)
            return False
    for (name, key), n in wanted.items():
        tables.budgets[name].take(key, n, now)
    job.starts_at = time.monotonic() + max(waits) if max(waits) else 0.0
    spend(tables, job)
    return True


def _wanted(job: Job, needs: Sequence[Need]) -> dict[tuple[str, str], int]:
    """What a job needs of which bucket, in one order for all, so that no two wait for each other."""
    wanted: dict[tuple[str, str], int] = {}
    for need in needs:
        try:
            key = bucket_key(job.payload, need)
        except msgspec.MsgspecError:
            key = ""  # its run will tell what is wrong with its arguments
        wanted[need.budget, key] = wanted.get((need.budget, key), 0) + tokens_of(need, job.options)
    return dict(sorted(wanted.items()))


def _soon(tables: Tables, job: Job, name: str, key: str, n: int, now: float) -> float:
    """Seconds until a job has its tokens, inf where it does not get them. Those who were let out of the line
    come first, then those who stand in it, then everybody else."""
    gate, budget = budget_gate(name, key), tables.budgets.get(name)
    if budget is None:
        return math.inf
    if gate in job.passes:
        return budget.soon(key, n, now)
    known = tables.gateways.get(gate)
    return math.inf if known is not None and known.line else _soon_free(tables, budget, gate, n, now)


def _line_up(tables: Tables, job: Job, gate: str, n: int, now: float) -> None:
    """Set a job aside at the end of a line for tokens; one that was let out of it before, for tokens that
    somebody else has taken since, goes back to its place. Meanwhile it takes no slot [F3]."""
    if gate not in job.passes:
        job.tickets[gate] = next(tables.tickets)
    _take_back(tables, job, [gate])
    job.needs = n
    wait_at(tables, job, gate)
    tables.gate(gate).line.sort(key=lambda waiting: waiting.tickets[gate])
    leave_slots(tables, job, now)


def spend(tables: Tables, job: Job) -> None:
    """The passes of a job that is claimed are used up."""
    _take_back(tables, job, list(filter(is_budget, job.passes)))
    job.tickets.clear()


def let_out(tables: Tables, limit: int, now: float) -> tuple[int, float | None]:
    """Let as many out of the lines for tokens as there are tokens for them; how many of them came to their
    lanes, and in how many seconds there will be more."""
    arrived, waits = 0, []
    _measure(tables)
    for name in sorted(name for name in tables.gateways if name.startswith("budget:")):
        budget = name.removeprefix("budget:").partition("/")[0]
        known, line = tables.budgets.get(budget), tables.gate(name).line
        left = 0  # tokens of those who wait for a slot now, which are for others: one at a time is let out
        while known is not None and line and limit > 0:
            job = line[0]
            if _soon_free(tables, known, name, job.needs, now, left) == math.inf:
                break
            job.passes[name] = job.needs
            tables.gate(name).passes.add(job)
            enter(tables, job, now)
            limit -= 1
            if job.gate is None:
                arrived += 1
            else:
                left += job.needs
        if known is not None and line:
            waits.append(_wait(tables, known, name, now, left))
        tables.sweep(name)
    soon = min(waits, default=math.inf)
    return arrived, soon if math.isfinite(soon) else None


def _measure(tables: Tables) -> None:
    """Those who need more than their budget can hold stand aside, so that nobody waits behind them; and they
    come back to their place when it can."""
    for name in [name for name in tables.gateways if name.startswith("budget:")]:
        known = tables.budgets.get(name.removeprefix("budget:").partition("/")[0])
        burst = math.inf if known is None else known.settings.burst
        for job in list(tables.gate(name).line):
            if job.needs > burst:
                wait_at(tables, job, over_gate(name))
        tables.sweep(name)
    for name in [name for name in tables.gateways if name.startswith("over:")]:
        line = "budget:" + name.removeprefix("over:")
        known = tables.budgets.get(line.removeprefix("budget:").partition("/")[0])
        for job in list(tables.gate(name).line):
            if known is not None and job.needs <= known.settings.burst:
                wait_at(tables, job, line)
                tables.gate(line).line.sort(key=lambda waiting: waiting.tickets[line])
        tables.sweep(name)


def _wait(tables: Tables, budget: Budget, gate: str, now: float, left: int) -> float:
    """Seconds until the first of a line may find its tokens, or those that were kept for another."""
    (_, _, key), need = gate.partition("/"), tables.gate(gate).line[0].needs
    promised = _promised(tables, gate, now)
    wait = budget.wait(key, need, now, sum(job.passes[gate] for job in promised) + left, AHEAD)
    if _has_probe(tables, budget, gate, now, left):
        wait = math.inf  # the probe comes first, and nobody knows when
    if not promised:
        return wait
    kept = min(job.let_out_at for job in promised) + PROMISED_FOR - now
    return min(wait, max(budget.wait(key, need, now, left, AHEAD), kept))


def _soon_free(tables: Tables, budget: Budget, gate: str, n: int, now: float, left: int = 0) -> float:
    """Seconds until there are so many tokens that were promised to nobody."""
    if _has_probe(tables, budget, gate, now, left):
        return math.inf
    _, _, key = gate.partition("/")
    return budget.soon(key, n, now, _reserved(tables, gate, now) + left)


def _has_probe(tables: Tables, budget: Budget, gate: str, now: float, left: int = 0) -> bool:
    """Whether one was let out that will be the probe of a half-open breaker."""
    return budget.breaker.allows(now) is not None and _reserved(tables, gate, now) + left > 0


def _reserved(tables: Tables, gate: str, now: float) -> int:
    """The tokens of those who were let out of a line and not claimed yet."""
    return sum(job.passes[gate] for job in _promised(tables, gate, now))


def _promised(tables: Tables, gate: str, now: float) -> list[Job]:
    """Those who were let out of a line a moment ago and not claimed yet. One who waits elsewhere since, or
    whom nobody comes for, keeps its pass, but nobody waits for it."""
    known = tables.gateways.get(gate)
    passes = known.passes if known is not None else ()
    kept = now - PROMISED_FOR, now + SLIP
    return [job for job in passes if job.gate is None and kept[0] < job.let_out_at <= kept[1]]


def _take_back(tables: Tables, job: Job, gates: Sequence[str]) -> None:
    for gate in gates:
        if job.passes.pop(gate, None) is not None:
            tables.gate(gate).passes.remove(job)
        tables.sweep(gate)
