"""Queues of which only so many jobs run at a time [F3], or start in a second, as their governor says [F2];
and what the governor is told and decides. How it decides is in `core.governor`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from typing import Any

import apsw
import msgspec

from windlass.core.bucket import Bucket
from windlass.core.governor import Governor, Window, burst
from windlass.store.flow import Governed, Runs
from windlass.store.records import Claim
from windlass.store.sqlite.rows import encode, fetch
from windlass.store.sqlite.statements import Statements
from windlass.store.sqlite.terms import must_lead
from windlass.store.sqlite.transaction import Transaction

_SQL = Statements("governor")
_decode = msgspec.json.Decoder(Governor).decode
_decode_runs = msgspec.json.Decoder(Runs).decode
Found = tuple[Any, ...]


def bound(tx: Transaction, queues: Collection[str], left: dict[str, int]) -> dict[str, Bucket]:
    """Lower what may be claimed of each queue to what is free of it. Answers with the buckets of those that
    have a governor."""
    buckets: dict[str, Bucket] = {}
    for name, concurrency, running, *governor in bounds(tx.connection, queues):
        if concurrency is not None:
            left[name] = min(left[name], max(0, concurrency - int(running)))
        bucket = governors_bucket(governor, tx.now)
        if bucket is not None:
            left[name] = min(left[name], int(bucket.available(tx.now)))
            buckets[name] = bucket
    return buckets


def count(tx: Transaction, buckets: Mapping[str, Bucket], claims: Iterable[Claim]) -> None:
    """Take the tokens of what was claimed, and of no more."""
    if not buckets:
        return
    taken: Counter[str] = Counter()
    for claim in claims:
        taken[claim.queue] += len(claim.jobs)
    for name, n in taken.items():
        bucket = buckets[name].take(n, tx.now) if name in buckets else None
        if bucket is not None:
            tx.run(_SQL["take"], (bucket.tokens, bucket.at, name))


def bounds(connection: apsw.Connection, queues: Collection[str]) -> list[Found]:
    """What bounds these queues: name, concurrency, how many run, and what is known of the governor."""
    return fetch(connection, _SQL["bounds"], (encode(list(queues)).decode(),)) if queues else []


def governors_bucket(found: Iterable[Any], now: float) -> Bucket | None:
    """The tokens of a queue that has a governor, from the last columns of its bounds."""
    governor, rate_min, rate_max, decided, tokens, at = found
    if not governor:
        return None
    rate = known(decided, rate_min, rate_max).rate
    return Bucket.full(rate, burst(rate), now) if tokens is None else Bucket(rate, burst(rate), tokens, at)


def known(decided: str | None, rate_min: float, rate_max: float) -> Governor:
    """What a queue's governor decided last; a new one begins carefully."""
    return Governor.first(rate_min, rate_max) if decided is None else _decode(decided)


def report(tx: Transaction, runs: Mapping[str, Runs]) -> None:
    """Add up how runs went. Of queues without a governor nothing is kept."""
    for queue, new in runs.items():
        found = tx.one(_SQL["told"], (queue,))
        if found is None:
            continue
        old = Runs() if found[0] is None else _decode_runs(found[0])
        total = Runs(
            succeeded=old.succeeded + new.succeeded,
            failed=old.failed + new.failed,
            throttled=old.throttled + new.throttled,
            times=dict(Counter(old.times) + Counter(new.times)),
        )
        tx.run(_SQL["tell"], (encode(total).decode(), queue))


def governed(tx: Transaction, term: int) -> list[Governed]:
    """The queues with a governor and what was reported of them, which is forgotten with this."""
    must_lead(tx, term)
    answer: list[Governed] = []
    for queue, least, most, decided, reported, waiting in tx.all(_SQL["governed"]):
        runs = Runs() if reported is None else _decode_runs(reported)
        window = Window(
            succeeded=runs.succeeded,
            failed=runs.failed,
            throttled=runs.throttled,
            waiting=int(waiting),
            times=runs.times,
        )
        last = None if decided is None else _decode(decided)
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
    tx.news = True
