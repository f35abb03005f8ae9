"""Budgets as others use them: declared, changed, looked at, and their tokens taken by hand [F1] [F7]; and
queues of which only so many jobs run at a time [F3], or start in a second, as their governor says [F2]. How a
governor decides is in `core.flow.governor`. Tokens that a claim takes are in `claim_limits`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

import apsw
import msgspec

from windlass.core.counts import plural
from windlass.core.flow.breaker import Breaker, BreakerState
from windlass.core.flow.bucket import Bucket
from windlass.core.flow.gates import budget_gate
from windlass.core.flow.governor import Governor, Window, burst
from windlass.store.budgets import changed, checked, new
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord, ClaimedJob, Governed, Lease, Runs, Taken, Usage
from windlass.store.sqlite.claims import must_live, must_run
from windlass.store.sqlite.cluster import must_lead
from windlass.store.sqlite.operation import budget_rows
from windlass.store.sqlite.operation.budget_rows import (
    Budget,
    bounds,
    changed_breaker,
    decode_governor,
    governors_bucket,
)
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import encode, fetch, record_of
from windlass.store.sqlite.schema import Statements

_SQL = Statements("budgets")
_decode_runs = msgspec.json.Decoder(Runs).decode

MAX_COUNTED: Final = 10_000
_GROWTH: Final = frozenset({"rate", "burst"})
_OF_BUCKET: Final = _GROWTH | {"cap", "cap_per", "cap_zone"}


def budgets(connection: apsw.Connection, now: float) -> list[BudgetRecord]:
    """Every budget, by name. Reads only."""
    return [
        _record(connection, budget_rows.load_budget(found), now) for found in fetch(connection, _SQL["all"])
    ]


def declare(tx: Transaction, budget: NewBudget) -> BudgetRecord:
    """Add a budget, unless there is one of this name [F1]."""
    known = tx.budgets.named(checked(budget).name)
    return _seen(tx, known or _add(tx, budget))


def set_budget(tx: Transaction, name: str, changes: Mapping[str, Any]) -> BudgetRecord:
    """Change a budget, or make it. Every bucket has by the old rate what has grown so far."""
    known = tx.budgets.named(name)
    if known is None:
        return _seen(tx, _add(tx, new(name, changes)))
    settings = changed(known.settings, changes)
    breaker = changed_breaker(known.breaker, settings)
    if changes.keys() & _OF_BUCKET:
        for key in tx.budgets.keys(known):
            bucket = tx.budgets.bucket(known, key)
            if changes.keys() & _GROWTH:
                bucket = bucket.changed(settings.rate, settings.burst, tx.now)
            bucket = bucket.capped(settings.cap, settings.cap_per, settings.cap_zone)
            tx.budgets.keep_bucket(known, key, bucket)
    budget = replace(known, settings=settings, breaker=breaker)
    tx.budgets.keep(budget)
    return _seen(tx, budget)


def usage(connection: apsw.Connection, now: float, budget: str, limit: int = 100) -> list[Usage]:
    """Who has used most of a budget in this period. Reads only."""
    return [Usage(*found) for found in fetch(connection, _SQL["used"], (budget, now, limit))]


def drop(tx: Transaction, name: str) -> bool:
    """Remove a budget; those who need it wait from then on."""
    return tx.budgets.drop(name)


def take(tx: Transaction, budget: str, n: int, key: str = "") -> Taken:
    """Take tokens by hand, all or none."""
    if n < 1:
        raise ValueError(f"{plural(n, 'token')} of budget {budget!r} cannot be taken: ask for 1 or more")
    known = tx.budgets.named(budget)
    if known is not None and n > known.settings.burst:
        raise ValueError(
            f"budget {budget!r} never holds {plural(n, 'token')}: its burst is {known.settings.burst}; take "
            "fewer, or raise its burst"
        )
    if not tx.budgets.grants(budget, key, n):
        tx.budgets.refuse(budget, key, n)
        return Taken(False, tx.budgets.wait(budget, key, n, by_hand=True))
    tx.budgets.take(budget, key, n)
    return Taken(True)


def lease(
    tx: Transaction,
    budget: str,
    needs: Sequence[int],
    key: str = "",
    *,
    extra: int = 0,
    rest: int = 0,
    leased_at: float = 0.0,
) -> Lease:
    """Take tokens for several callers and a block on top, and give back what is left of the last one."""
    if min(needs, default=1) < 1:
        raise ValueError(f"budget {budget!r}: a caller needs 1 token or more, not {min(needs)}")
    known = tx.budgets.named(budget)
    if known is None:
        return Lease([False] * len(needs), at=tx.now)
    if tx.now >= leased_at:  # else the clock was set back, and nobody knows how long ago that was
        give_back(tx, budget, rest, key, tx.now - leased_at)
    if extra and tx.gates.anyone_waits(budget_gate(budget, key)):
        extra = 0  # while blocks are out the bucket never holds its burst, which the first may need
    served, block = tx.budgets.lease(known, key, needs, extra)
    shut = (tx.budgets.named(budget) or known).breaker.left(tx.now)
    bucket = tx.budgets.bucket(known, key).refilled(tx.now)
    if shut:
        bucket = msgspec.structs.replace(bucket, paused_until=max(bucket.paused_until, tx.now + shut))
    return Lease(served, block, tx.now, bucket)


def give_back(tx: Transaction, budget: str, n: int, key: str = "", age: float = 0.0) -> None:
    """Put tokens back that were not used."""
    known = tx.budgets.named(budget)
    if known is not None and n > 0:
        bucket = tx.budgets.bucket(known, key).give_back(n, tx.now, age)
        tx.budgets.keep_bucket(known, key, bucket)


def settle(tx: Transaction, budget: str, more: int, key: str = "", age: float = 0.0) -> None:
    """Correct a bucket by what was really used."""
    known = tx.budgets.named(budget)
    if known is not None and more:
        bucket = tx.budgets.bucket(known, key).settled(more, tx.now, age)
        tx.budgets.keep_bucket(known, key, bucket)


def spent(
    tx: Transaction,
    worker: int,
    job: ClaimedJob,
    budget: str,
    key: str,
    *,
    before: int,
    tokens: int,
    age: float = 0.0,
) -> None:
    """An attempt says what it really used."""
    must_live(tx, worker)
    must_run(tx, worker, job)
    found = tx.one(_SQL["spent"], (*job.fence, budget))
    tx.run(_SQL["keep_spent"], (*job.fence, budget, tokens, tx.now))
    settle(tx, budget, tokens - (before if found is None else int(found[0])), key, age)


def drain(tx: Transaction, budget: str, pause: float, key: str | None = None) -> None:
    """An upstream has said that it is enough."""
    known = tx.budgets.named(budget)
    if known is None:
        raise ValueError(f"there is no budget {budget!r} to be drained; declare it, or set its rate")
    for one in tx.budgets.keys(known) if key is None else [key]:
        tx.budgets.keep_bucket(known, one, tx.budgets.bucket(known, one).drained(pause, tx.now))
    if key is None:
        all = Bucket(0.0, 0.0, 0.0, known.drained_at, known.drained_until).drained(pause, tx.now)
        tx.budgets.keep(replace(known, drained_until=all.paused_until, drained_at=all.at))


def report_calls(tx: Transaction, budget: str, succeeded: int, failed: int) -> BreakerState:
    """Tell its breaker how runs went [F7]."""
    known = tx.budgets.named(budget)
    if known is None:
        return "closed"
    breaker = known.breaker.after_calls(succeeded, failed, tx.now)
    if breaker is not known.breaker:
        tx.budgets.keep(replace(known, breaker=breaker))
    return breaker.state(tx.now)


def _add(tx: Transaction, settings: NewBudget) -> Budget:
    fresh = NewBudget(**{name: getattr(settings, name) for name in NewBudget.__struct_fields__})
    budget = Budget(fresh, Breaker(fresh.breaker, fresh.breaker_pause))
    tx.budgets.keep(budget)
    tx.budgets.keep_bucket(budget, "", budget.bucket(None, tx.now))
    return budget


def _seen(tx: Transaction, budget: Budget) -> BudgetRecord:
    """The budget as others see it, once all of it is written."""
    tx.save()
    return _record(tx.connection, budget, tx.now)


def _record(connection: apsw.Connection, budget: Budget, now: float) -> BudgetRecord:
    name = budget.settings.name
    found = fetch(connection, _SQL["bucket"], (name, ""))
    bucket = budget.bucket(found[0] if found else None, now)
    bucket = bucket.refilled(now)
    return record_of(
        BudgetRecord,
        msgspec.structs.asdict(budget.settings),
        tokens=max(0.0, bucket.tokens),
        paused_for=max(0.0, bucket.paused_until - now, budget.breaker.left(now)),
        state=budget.breaker.state(now),
        failures=budget.breaker.failures,
        used=bucket.used,
        used_until=bucket.used_until,
        waiting=sum(
            fetch(connection, _SQL["waiting"], (kind + name, MAX_COUNTED))[0][0]
            for kind in ("budget:", "over:")
        ),
    )


# -- the governor --------------------------------------------------------------------------------------------


def count_runs(tx: Transaction, runs: Mapping[str, Runs]) -> None:
    """Add up how runs went. Of queues without a governor nothing is kept."""
    for queue, counted in runs.items():
        found = tx.one(_SQL["reported"], (queue,))
        if found is None:
            continue
        old = Runs() if found[0] is None else _decode_runs(found[0])
        total = Runs(
            succeeded=old.succeeded + counted.succeeded,
            failed=old.failed + counted.failed,
            throttled=old.throttled + counted.throttled,
            times=dict(Counter(old.times) + Counter(counted.times)),
        )
        tx.run(_SQL["count_runs"], (encode(total).decode(), queue))


def governed(tx: Transaction, term: int) -> list[Governed]:
    """The queues with a governor and what was reported of them, which is forgotten with this."""
    must_lead(tx, term)
    answer: list[Governed] = []
    for queue, least, most, decided, reported, waiting in tx.all(_SQL["governed"]):
        runs = Runs() if reported is None else _decode_runs(reported)
        window = Window(**msgspec.structs.asdict(runs), waiting=int(waiting))
        last = None if decided is None else decode_governor(decided)
        answer.append(Governed(queue, window, least, most, last))
    tx.run(_SQL["forget_reports"])
    return answer


def govern(tx: Transaction, term: int, queue: str, governor: Governor) -> None:
    """Keep what a governor decided; what its bucket has grown so far counts by the old rate."""
    must_lead(tx, term)
    for _, _, _, *known_before in bounds(tx.connection, [queue]):
        bucket = governors_bucket(known_before, tx.now)
        if bucket is None:
            continue
        grown = bucket.changed(governor.rate, burst(governor.rate), tx.now)
        tx.run(_SQL["decide"], (encode(governor).decode(), grown.tokens, grown.at, queue))
    tx.notify = True
