"""Budgets [F1] [F7] and the governor [F2]: what tasks need, how they stand, and how runs went."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

import msgspec

from windlass.core.flow.breaker import BreakerState
from windlass.core.flow.bucket import Bucket
from windlass.core.flow.governor import Governor, Window
from windlass.store.fields import NewBudget


class Need(msgspec.Struct, frozen=True):
    """The tokens of a budget that each run of a task needs [F1]."""

    budget: str
    n: int = 1
    argument: str | None = None
    """The argument whose value is the key of the bucket; None: the budget has one bucket for all."""
    place: int | None = None
    """Where that argument stands among the positional ones, if it may be given so."""
    costed: bool = False
    """Each job says how many, in its `costs`; one that does not takes `n`."""


Needs: TypeAlias = Mapping[str, Sequence[Need]]
"""By task: what a claimer must take for its jobs. Tasks that need nothing are left out."""


class BudgetRecord(NewBudget, frozen=True, kw_only=True):
    """A budget as it stands. `tokens` and `paused_for` are those of its bucket for all (key "")."""

    tokens: float = 0.0
    paused_for: float = 0.0
    """Seconds until it may grant again, where it was drained or its breaker is open."""
    state: BreakerState = "closed"
    failures: int = 0
    """Failed runs in a row."""
    used: float = 0.0
    """Tokens that its bucket for all has granted in this period, less those that came back."""
    used_until: float | None = None
    """When this period ends."""
    waiting: int = 0
    """Jobs that wait for its tokens, over all of its buckets; counted up to 10,000."""


class Usage(msgspec.Struct, frozen=True):
    """The tokens of a budget that one key has used in this period."""

    key: str
    used: float
    until: float
    """When the period ends."""


class Taken(msgspec.Struct, frozen=True):
    """The answer to a take: granted or not; if not, in how many seconds it makes sense to ask again."""

    granted: bool
    wait: float = 0.0


class Lease(msgspec.Struct, frozen=True):
    """The tokens that several callers of one process were granted."""

    served: list[bool]
    """For each of them, in their order."""
    block: int = 0
    """Tokens on top, to be handed out for `bucket.held_for` seconds."""
    at: float = 0.0
    """When, as the store's clock says it."""
    bucket: Bucket | None = None
    """How it stands then, paused where its breaker is open; None: nobody has declared the budget."""


class Runs(msgspec.Struct, kw_only=True):
    """How runs of one queue went, as a worker reports them to the governor."""

    succeeded: int = 0
    failed: int = 0
    throttled: int = 0
    times: dict[int, int] = {}
    """See `core.histogram`."""


class Governed(msgspec.Struct, frozen=True):
    """A queue with a governor: what happened since the last look, and what its governor knew then."""

    queue: str
    window: Window
    least: float
    most: float
    governor: Governor | None
