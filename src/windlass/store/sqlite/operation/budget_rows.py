"""Budgets within one operation: loaded when first needed, changed in memory, written back once at its end
[F1] [F7]; and the tokens of queues that have a governor [F2]. What a bucket or a breaker does is decided by
`core.flow.bucket` and `core.flow.breaker`."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import apsw
import msgspec

from windlass.core.flow.breaker import Breaker
from windlass.core.flow.bucket import AHEAD, Bucket
from windlass.core.flow.governor import Governor, burst
from windlass.store.fields import NewBudget, fields_of
from windlass.store.sqlite.rows import Bindings, encode, fetch
from windlass.store.sqlite.schema import Statements

_SQL = Statements("budgets")
_COLUMNS: Final = ("name", *fields_of(NewBudget))

UNKNOWN_WAIT: Final = 5.0
"""Seconds after which it makes sense to look whether a budget exists by now."""


@dataclass(slots=True)
class Budget:
    """A row of the budgets."""

    settings: NewBudget
    breaker: Breaker
    drained_until: float = 0.0
    drained_at: float = 0.0
    """When that was said."""

    @property
    def columns(self) -> Bindings:
        """The row."""
        own, seen = self.settings, self.breaker
        return (
            *msgspec.structs.astuple(own),
            seen.failures, seen.openings, seen.until, seen.probing, self.drained_until, self.drained_at,
        )  # fmt: skip

    def bucket(self, found: tuple[Any, ...] | None, now: float) -> Bucket:
        """One of its buckets; one that has no row is full, or as it was drained with all others."""
        rate, burst, own = self.settings.rate, float(self.settings.burst), self.settings
        if found is not None:
            bucket = Bucket(rate, burst, *found)
        elif self.drained_until:
            bucket = Bucket(rate, burst, 0.0, self.drained_at, self.drained_until)
        else:
            bucket = Bucket.full(rate, burst, now)
        return msgspec.structs.replace(bucket, cap=own.cap, per=own.cap_per, zone=own.cap_zone)


def load_budget(found: tuple[Any, ...]) -> Budget:
    """A budget from its row."""
    settings = NewBudget(**dict(zip(_COLUMNS, found, strict=False)))
    failures, openings, until, probing, *drained = found[len(_COLUMNS) :]
    return Budget(
        settings,
        Breaker(settings.breaker, settings.breaker_pause, failures, openings, until, bool(probing)),
        *drained,
    )


class Budgets:
    """The budgets that an operation has to do with."""

    def __init__(self, connection: apsw.Connection, now: float, *, books: bool) -> None:
        """`books` says whether claims may book tokens that are not there yet."""
        self._connection = connection
        self._now = now
        self._ahead = AHEAD if books else 0.0
        self._known: dict[str, Budget | None] = {}
        self._buckets: dict[tuple[str, str], Bucket] = {}
        self._changed: dict[str, None] = {}
        self._touched: dict[tuple[str, str], None] = {}

    def named(self, name: str) -> Budget | None:
        """The budget of this name."""
        if name not in self._known:
            found = fetch(self._connection, _SQL["named"], (name,))
            self._known[name] = load_budget(found[0]) if found else None
        return self._known[name]

    def keep(self, budget: Budget) -> None:
        """The budget is new, or has changed."""
        self._known[budget.settings.name] = budget
        self._changed[budget.settings.name] = None

    def bucket(self, budget: Budget, key: str) -> Bucket:
        """One of its buckets."""
        at = budget.settings.name, key
        if at not in self._buckets:
            found = fetch(self._connection, _SQL["bucket"], at)
            self._buckets[at] = bucket = budget.bucket(found[0] if found else None, self._now)
            if (resumed := bucket.resumed(self._now)) is not bucket:
                self.keep_bucket(budget, key, resumed)
        return self._buckets[at]

    def keep_bucket(self, budget: Budget, key: str, bucket: Bucket) -> None:
        """The bucket has changed."""
        at = budget.settings.name, key
        self._buckets[at] = bucket
        self._touched[at] = None

    def keys(self, budget: Budget) -> list[str]:
        """The keys of its buckets, and that of the one for all."""
        self.save()
        found = fetch(self._connection, _SQL["buckets"], (budget.settings.name,))
        return list({"": None, **{key: None for (key,) in found}})

    def grants(self, name: str, key: str, n: int, reserved: int = 0) -> bool:
        """Return whether it would grant n tokens now, beside those reserved for others. Half-open it grants
        one call, the probe [F7]. A budget that does not exist grants nothing."""
        budget = self.named(name)
        if budget is None:
            return False
        allowed = budget.breaker.allows(self._now)
        if allowed is not None and (not allowed or reserved):
            return False
        return self.bucket(budget, key).available(self._now) >= n + reserved

    def soon(self, name: str, key: str, n: int, reserved: int = 0) -> float:
        """Seconds until a claim has n tokens beside those reserved for others; inf where it cannot book them.
        Unless the breaker is closed they must be there."""
        budget = self.named(name)
        if budget is None or budget.breaker.allows(self._now) is not None or not self._ahead:
            return 0.0 if self.grants(name, key, n, reserved) else math.inf
        return self.bucket(budget, key).soon(n, self._now, reserved)

    def has_plenty(self, name: str, key: str, n: int) -> bool:
        """Return whether it would grant so many tokens to many callers."""
        budget = self.named(name)
        if budget is None or budget.breaker.allows(self._now) is not None:
            return False
        return self.bucket(budget, key).available(self._now) >= n

    def take(self, name: str, key: str, n: int) -> None:
        """Take tokens that it grants, or will soon."""
        budget = self.named(name)
        assert budget is not None
        self._granted(budget, key, self.bucket(budget, key).book(n, self._now))

    def refuse(self, name: str, key: str, n: int) -> None:
        """Remember that somebody went without by hand, where claims would always come first."""
        budget = self.named(name)
        if budget is not None:
            bucket = self.bucket(budget, key)
            if (refused := bucket.refused(n, self._now)) is not bucket:
                self.keep_bucket(budget, key, refused)

    def lease(self, budget: Budget, key: str, needs: Sequence[int], extra: int) -> tuple[list[bool], int]:
        """Take tokens for callers in their order, and a block on top; see Bucket.lease. Half-open the first
        who can be served is the probe [F7]."""
        bucket, allowed = self.bucket(budget, key), budget.breaker.allows(self._now)
        served, block, bucket = bucket.lease(needs, extra, self._now, allowed)
        if any(served) or block:
            self._granted(budget, key, bucket)
        elif bucket.whole_until:
            self.keep_bucket(budget, key, bucket)
        return served, block

    def _granted(self, budget: Budget, key: str, left: Bucket) -> None:
        self.keep_bucket(budget, key, left)
        breaker = budget.breaker.granted(self._now)
        if breaker is not budget.breaker:
            self.keep(replace(budget, breaker=breaker))

    def wait(self, name: str, key: str, n: int, reserved: int = 0, *, by_hand: bool = False) -> float:
        """Seconds until it may grant n tokens beside those reserved, or a claim may book them; inf where time
        alone will not do it."""
        budget = self.named(name)
        if budget is None:
            return UNKNOWN_WAIT
        ahead = 0.0 if by_hand or budget.breaker.allows(self._now) is not None else self._ahead
        wait = self.bucket(budget, key).wait(n, self._now, reserved, ahead)
        match budget.breaker.allows(self._now):
            case None:
                return wait
            case 0:
                return max(wait, budget.breaker.left(self._now))
            case _:
                return math.inf if reserved else wait  # what is reserved is the probe: it comes first

    def drop(self, name: str) -> bool:
        """Forget a budget and its buckets; whether there was one."""
        self.save()
        self._known.clear()
        self._buckets.clear()
        self._connection.execute(_SQL["drop_buckets"], (name,))
        self._connection.execute(_SQL["drop"], (name,))
        return self._connection.changes() > 0

    def forget(self, limit: int, before: float) -> int:
        """Remove buckets that have been full for long."""
        self._connection.execute(_SQL["forget"], (before, limit))
        return self._connection.changes()

    def forget_spent(self, limit: int, before: float) -> int:
        """Forget what attempts have said long ago that they used."""
        self._connection.execute(_SQL["forget_spent"], (before, limit))
        return self._connection.changes()

    def save(self) -> None:
        """Write what has changed."""
        for name in self._changed:
            budget = self._known[name]
            assert budget is not None
            self._connection.execute(_SQL["keep"], budget.columns)
        if self._touched:
            buckets = [(*at, self._buckets[at]) for at in self._touched]
            self._connection.executemany(
                _SQL["keep_bucket"],
                [(name, key, *msgspec.structs.astuple(own)[2:9]) for name, key, own in buckets],
            )
        self._changed.clear()
        self._touched.clear()


def changed_breaker(old: Breaker, settings: NewBudget) -> Breaker:
    """The breaker with other settings; what it has seen stays."""
    return msgspec.structs.replace(old, threshold=settings.breaker, pause=settings.breaker_pause)


# -- queues with a governor ----------------------------------------------------------------------------------

decode_governor: Final = msgspec.json.Decoder(Governor).decode


def bounds(connection: apsw.Connection, queues: Collection[str]) -> list[tuple[Any, ...]]:
    """Return the bounds of these queues: name, concurrency, how many run, and what is known of the
    governor."""
    return fetch(connection, _SQL["bounds"], (encode(list(queues)).decode(),)) if queues else []


def governors_bucket(found: Iterable[Any], now: float) -> Bucket | None:
    """The tokens of a queue that has a governor, from the last columns of its bounds."""
    governor, rate_min, rate_max, decided, tokens, at = found
    if not governor:
        return None
    rate = known(decided, rate_min, rate_max).rate
    return Bucket.full(rate, burst(rate), now) if tokens is None else Bucket(rate, burst(rate), tokens, at)


def known(decided: str | None, rate_min: float, rate_max: float) -> Governor:
    """Return the last decision of a queue's governor; a new one begins carefully."""
    return Governor.first(rate_min, rate_max) if decided is None else decode_governor(decided)
