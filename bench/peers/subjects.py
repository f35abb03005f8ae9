"""Who is measured, and roughly how fast each is, which decides how many jobs it is given: a guess too low
makes its measurement short, and its start weighs more."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from bench.servers import POSTGRESQL, REDIS, SQLITE

HERE: Final = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Subject:
    """A library, or a limit to compare with. `rate` is a guess at the jobs a second one process runs."""

    name: str
    title: str
    store: str
    rate: int
    library: bool = True
    enqueues: int = 1000
    """A guess at the jobs a second that its fastest way of enqueueing takes."""

    keyed: Mapping[str, int] = field(default_factory=dict)
    """Guesses at the jobs a second of those of `KINDS` that it has."""

    steps: int = 0
    """A guess at the steps a second that one process runs, where it has steps."""

    program: str = ""
    """Whose program it is run by, where that is not its own."""

    only: tuple[str, ...] = ()
    """The scenarios that it takes part in, where those are not all."""

    revision: str = ""
    """The commit of Windlass that it is, where that is not the one checked out."""

    @property
    def folder(self) -> Path:
        """Where its program and its requirements are."""
        return HERE / "programs" / (self.program or self.name)

    @property
    def works(self) -> bool:
        """Whether it runs jobs at all."""
        return self.rate > 0


KINDS: Final = {
    "keyed": "100 keys, one job of each at a time",
    "chain": "one key, one job at a time",
    "key_each": "a key for each job",
    "ordered": "100 ordering keys",
    "fair": "100 fair keys",
    "task_limit": "a limit of the task that is never reached",
    "budget": "a budget with plenty of tokens",
    "budget_by_key": "a budget with plenty for each of 100 keys",
}
"""What keeps jobs of a backlog back, or could."""
FAST_KEYS: Final = {
    "keyed": 30_000,
    "chain": 20_000,
    "key_each": 60_000,
    "ordered": 30_000,
    "fair": 40_000,
    "task_limit": 30_000,
    "budget": 60_000,
    "budget_by_key": 60_000,
}
SUBJECTS: Final = (
    Subject("windlass", "Windlass", POSTGRESQL, 140_000, enqueues=150_000, keyed=FAST_KEYS, steps=25_000),
    Subject("awa", "Awa", POSTGRESQL, 8_000, enqueues=80_000),
    Subject(
        "pgqueuer", "PgQueuer", POSTGRESQL, 24_000, enqueues=70_000, keyed={"keyed": 4_000, "chain": 100}
    ),
    Subject(
        "procrastinate",
        "Procrastinate",
        POSTGRESQL,
        1_200,
        enqueues=15_000,
        keyed={"keyed": 200, "chain": 100},
    ),
    Subject("absurd", "Absurd", POSTGRESQL, 3_000, enqueues=5_000, steps=3_000),
    Subject("dbos", "DBOS", POSTGRESQL, 900, enqueues=1_500, keyed={"keyed": 600, "chain": 60}, steps=600),
    Subject("skip_locked", "by hand: SKIP LOCKED", POSTGRESQL, 60_000, library=False, enqueues=200_000),
    Subject("raw_insert", "raw inserts", POSTGRESQL, 0, library=False, enqueues=250_000),
    Subject("dramatiq", "Dramatiq", REDIS, 5_000, enqueues=8_000),
    Subject("taskiq", "Taskiq", REDIS, 4_000, enqueues=3_000),
    Subject("celery", "Celery", REDIS, 1_500, enqueues=8_000),
    Subject("rq", "RQ", REDIS, 400, enqueues=8_000),
    Subject("streaq", "streaQ", REDIS, 1_500, enqueues=10_000),
    Subject(
        "windlass_threads",
        "Windlass, plain functions",
        POSTGRESQL,
        120_000,
        enqueues=150_000,
        program="windlass",
        only=("drain_one",),
    ),
    Subject(
        "windlass_sqlite",
        "Windlass on SQLite",
        SQLITE,
        120_000,
        enqueues=150_000,
        keyed=FAST_KEYS,
        steps=25_000,
        program="windlass",
    ),
    Subject("huey", "Huey", SQLITE, 3_000, enqueues=1_000),
)


def before(revision: str) -> Subject:
    """Windlass as it was at a commit, to be measured in the same rounds as what is checked out."""
    return dataclasses.replace(
        SUBJECTS[0],
        name="windlass_before",
        title=f"Windlass at {revision}",
        program="windlass",
        revision=revision,
        steps=0,  # it may have had none
    )
