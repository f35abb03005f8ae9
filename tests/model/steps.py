"""What all actions of the machine stand on: how one is chosen, who is alive, and what is kept in step.

Actions live in `machine` (producers, workers, operators and time), `edges` and the modules beside them.
"""

import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from hypothesis import strategies as st

from tests.model.pair import Pair
from tests.model.side import End, abilities_of
from tests.model.wishes import KINDS, PUT_OFF, SET_ASIDE, STEP, steps
from windlass.core.states import FINISHED, Kind, State
from windlass.store.records import JobRecord

WINDOW = 3
ACTIONS: dict[str, tuple[int, str | None, Callable[["Steps"], object]]] = {}
THEMES = (
    ("lanes",),
    ("lanes", "edges"),
    ("lanes", "keys"),
    ("gates", "keys"),
    ("gates",),
    ("budgets",),
    ("families",),
    ("families", "gates"),
    ("lanes", "edges", "families"),
    ("lanes", "keys", "edges", "gates", "budgets", "families"),
)
"""What a run may be about: one of all things at once would seldom come far with any of them."""

Draw = st.DataObject
Method = Callable[[Any, Draw], None]


def action(
    weight: int, when: Callable[["Steps"], object] = lambda machine: True, *, theme: str | None = None
) -> Callable[[Method], Method]:
    """Let the machine choose this method so often, where the condition holds and the run is about it."""

    def note(method: Method) -> Method:
        ACTIONS[method.__name__] = weight, theme, when
        return method

    return note


def somebody_runs(machine: "Steps") -> object:
    return any(machine.known[worker] for worker in machine.alive)


def no_crashed_job_is_ready(machine: "Steps") -> object:
    """A job that has seen a death ends the answer of a claim, wherever it stands. So may one that expires
    [E8]: how many are left of what a claim looked at is the store's own affair."""
    ready = (record for record in machine.model.seen.values() if record.state is State.READY)
    return not any(record.deaths or record.options.expires_at is not None for record in ready)


class Steps(Pair):
    """The pair with its workers, and what an action needs of both."""

    alone: ClassVar[bool] = False
    """Whether jobs that may be refused or replace others come alone, with nothing due. Where producers take
    no locks, what stands beside a refused job leaves numbers behind that count until a claim has passed them,
    and a replacement is promoted into its lane after the call, along with whatever else is due."""
    late: ClassVar[bool] = False
    """Whether jobs that stand aside are admitted by `promote` alone, and not with the commit that makes room
    for them, as the model does it. Then there is a promotion after every step while there are such jobs, and
    no claim asks for more than the window, so that when it was does not matter."""

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        self.delays = itertools.count(1)
        self.worker_ids = itertools.count(1)
        self.flushes: dict[int, itertools.count[int]] = {}
        self.alive: list[int] = []
        self.gone: list[int] = []
        self.known: dict[int, list[str]] = {}
        self.term = 0
        self.themes: tuple[str, ...] = ()

    def catch_up(self) -> None:
        """Bring a store that is late to where the model is; how many it admits for that is its own affair."""
        if self.has_late_jobs():
            for side in (self.model, self.other):
                for _ in range(2):
                    side.do("promote", 1000)

    def has_late_jobs(self) -> bool:
        """Whether there are jobs for which a store may do something with `promote`, or sooner, or later."""
        seen = [record for side in (self.model, self.other) for record in self.run(side.look()).values()]
        return any(self.moves_late(record) for record in seen if record.state not in FINISHED)

    def moves_late(self, record: JobRecord) -> bool:
        follows = record.state is State.SCHEDULED and bool(record.options.after)
        return follows or (self.late and (record.options.fair_key is not None or record.queue in SET_ASIDE))

    def delay(self, steps: int) -> float:
        """A delay that ends between two steps of the clock, a little later than every delay before it."""
        return steps * STEP - STEP / 2 + next(self.delays) * 0.001 if steps else 0.0

    @property
    def plain(self) -> list[int]:
        """The workers that are alive and have no ability."""
        return [worker for worker in self.alive if not abilities_of(worker)]

    def worker(self, data: Draw, workers: list[int] | None = None) -> int:
        return data.draw(st.sampled_from(self.alive if workers is None else workers), label="worker")

    def end(self, data: Draw, worker: int, labels: Sequence[str]) -> None:
        """End these attempts in one flush, each in some way."""
        ends = []
        for label in labels:
            kind = data.draw(st.sampled_from(KINDS), label="kind")
            wait = data.draw(steps, label="steps") if kind in PUT_OFF else 0
            # What is forgotten is what failed before, by the clock: see `Side.set_back`.
            forget = (
                kind is Kind.SUCCEEDED
                and data.draw(st.booleans(), label="forget")
                and not self.model.set_back
            )
            ends.append(End(label, kind, self.delay(wait), forget))
        self.both("finish", worker, next(self.flushes[worker]), ends)
        self.known[worker] = [label for label in self.known[worker] if label not in labels]

    def new_worker(self) -> None:
        worker = next(self.worker_ids)
        self.both("register", worker)
        self.alive.append(worker)
        self.known[worker] = []
        self.flushes[worker] = itertools.count(1)

    def declare_dead(self, worker: int) -> None:
        self.alive.remove(worker)
        self.gone.append(worker)
        self.known[worker] = []
        if not self.alive:
            self.new_worker()
