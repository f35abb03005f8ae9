"""How much is measured: sizes, repetitions and minutes of each plan."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final


@dataclass(frozen=True)
class Plan:
    """Seconds are aims for the sizes; a peer slower than guessed is cut off `patience` times later."""

    name: str
    minutes: int
    """Nothing new is begun after so many."""
    rounds: int
    """How often enqueue, drain and pick-up are repeated."""
    drain: float
    enqueue: float
    pick_up: float
    sustained: float
    pinned: float
    long_rounds: int
    """How often sustained load, with and without a pinned snapshot, is repeated."""
    long_job: float
    recovery: float
    """How long an interrupted job is waited for."""
    restarted: float
    idle: float
    idlers: tuple[int, ...]
    """How many idle processes there are."""
    backlogs: tuple[int, ...]
    own_backlogs: tuple[int, ...]
    """Further ones, for Windlass alone."""
    crowds: tuple[int, ...]
    own_crowds: tuple[int, ...]
    crowd: float
    crowd_rounds: int
    others: bool = field(default=True)
    """Whether peers on Redis and SQLite take part in more than bulk enqueue and drain by one process."""
    patience: int = 4


FULL: Final = Plan(
    name="full",
    minutes=115,
    rounds=3,
    drain=5,
    enqueue=3,
    pick_up=10,
    sustained=15,
    pinned=48,
    long_rounds=2,
    long_job=4,
    recovery=75,
    restarted=20,
    idle=10,
    idlers=(1, 16),
    backlogs=(1_000, 10_000, 100_000),
    own_backlogs=(1_000_000, 10_000_000),
    crowds=(1, 4, 16),
    own_crowds=(1, 2, 4, 8, 16, 32, 64),
    crowd=9,
    crowd_rounds=2,
)
WIDE: Final = Plan(
    name="wide",
    minutes=28,
    rounds=1,
    drain=1.5,
    enqueue=1,
    pick_up=3,
    sustained=4,
    pinned=9,
    long_rounds=1,
    long_job=3,
    recovery=38,
    restarted=6,
    idle=3,
    idlers=(1,),
    backlogs=(10_000,),
    own_backlogs=(1_000, 100_000, 1_000_000),
    crowds=(4,),
    own_crowds=(1, 4, 16),
    crowd=4,
    crowd_rounds=1,
)
"""Every peer in nearly all that the full plan has, once, and shorter."""

QUICK: Final = Plan(
    name="quick",
    minutes=14,
    rounds=1,
    drain=3,
    enqueue=2,
    pick_up=4,
    sustained=5,
    pinned=15,
    long_rounds=1,
    long_job=3,
    recovery=45,
    restarted=8,
    idle=4,
    idlers=(1,),
    backlogs=(10_000,),
    own_backlogs=(1_000, 100_000, 1_000_000),
    crowds=(),
    own_crowds=(1, 8, 64),
    crowd=5,
    crowd_rounds=1,
    others=False,
)
SMOKE: Final = Plan(
    name="smoke",
    minutes=60,
    rounds=1,
    drain=0.1,
    enqueue=0.1,
    pick_up=0.5,
    sustained=1,
    pinned=1.5,
    long_rounds=1,
    long_job=3,
    recovery=8,
    restarted=3,
    idle=1,
    idlers=(1,),
    backlogs=(1_000,),
    own_backlogs=(),
    crowds=(2,),
    own_crowds=(),
    crowd=3,
    crowd_rounds=1,
    patience=600,
)
"""Every peer and scenario at a tiny size, to see that all of it works; its figures say nothing."""

PLANS: Final = {each.name: each for each in (FULL, WIDE, QUICK, SMOKE)}
