"""A coordinator's duty done once, by hand: `windlass maintain rescue --once` and `app.maintain("rescue")`
[K3] [K11]. Each answers with its counts, as `--json` prints them."""

from __future__ import annotations

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, Literal, TypeAlias, TypeVar

from msgspec.structs import asdict

from windlass.cluster import duties
from windlass.cluster.schedules import fire_due
from windlass.core.retry import DeathPolicy
from windlass.errors import TermLost
from windlass.settings import Settings
from windlass.store.protocol import Store

T = TypeVar("T")
Duty: TypeAlias = Literal[
    "promote", "retention", "rescue", "schedules", "rollup", "counts", "governor", "slots"
]
Counts: TypeAlias = dict[str, Any]
_TERM: Final = 30.0


async def once(store: Store, duty: str, settings: Settings) -> Counts:
    """Do a duty once. Raises ValueError where there is none of this name, and TermLost where it is for a
    coordinator alone and another one is active."""
    if duty not in _DUTIES:
        raise ValueError(f"there is no duty {duty!r}; there are {', '.join(sorted(_DUTIES))}")
    return await _DUTIES[duty](store, settings)


async def _promote(store: Store, settings: Settings) -> Counts:
    return asdict(await duties.promote(store))


async def _retention(store: Store, settings: Settings) -> Counts:
    rotation, expired = await duties.retention(store)
    return {**asdict(rotation), **asdict(expired)}


async def _rescue(store: Store, settings: Settings) -> Counts:
    policy = DeathPolicy(poison=settings.poison)
    rescued = await duties.rescue(store, policy, settings.lease)
    return {
        "rescued": [
            {"worker": str(worker.id), "label": worker.label, **asdict(jobs)} for worker, jobs in rescued
        ]
    }


async def _schedules(store: Store, settings: Settings) -> Counts:
    return {"jobs": (await fire_due(store, None)).jobs}


async def _rollup(store: Store, settings: Settings) -> Counts:
    return asdict(await duties.rollup(store))


async def _counts(store: Store, settings: Settings) -> Counts:
    """Count what has ended, then compare all that was counted with what the store holds [M7]."""
    counted = await duties.count_ends(store)
    wrong = await store.recount()
    ended = sum(sum(each.counts.values()) for each in await store.ended())
    return {"ended": ended, "claims": counted.claims, "corrected": [asdict(each) for each in wrong]}


async def _governor(store: Store, settings: Settings) -> Counts:
    decided = await _as_coordinator(store, duties.govern)
    return {"governors": [{"queue": queue, **asdict(each)} for queue, each in decided.items()]}


async def _slots(store: Store, settings: Settings) -> Counts:
    assigned = await _as_coordinator(store, duties.assign_slots)
    return {"slots": {str(worker): shares for worker, shares in assigned.items()}}


async def _as_coordinator(store: Store, duty: Callable[[Store, int], Awaitable[T]]) -> T:
    """Do what only a coordinator may, in a term of one's own [K3]."""
    candidate = secrets.randbelow(2**62) + 1
    term = await store.lead(candidate, _TERM)
    if term is None:
        raise TermLost("another coordinator is active and does this itself; there is nothing to do by hand")
    try:
        return await duty(store, term)
    finally:
        await store.resign(candidate)


_DUTIES: Final[Mapping[str, Callable[[Store, Settings], Awaitable[Counts]]]] = {
    "promote": _promote,
    "retention": _retention,
    "rescue": _rescue,
    "schedules": _schedules,
    "rollup": _rollup,
    "counts": _counts,
    "governor": _governor,
    "slots": _slots,
}
