"""The two stores side by side: do the same on both, compare the answers, and after each step everything else.

No actions live here; see `machine` for what happens to the pair.
"""

import asyncio
import sys
from typing import Any

from hypothesis.stateful import RuleBasedStateMachine, invariant

from tests.conformance.kit import HandClock
from tests.model.oracle import OracleStore
from tests.model.side import Answer, Side
from tests.model.wishes import STEP
from windlass.core.rollup import Sample
from windlass.store.settings import StoreSettings

SETTINGS = StoreSettings(ageing_step=1000.0, idempotency_retention=2050.0, retention=1e9)
COUNTED_AS = {"splitting": "running"}
"""How the state of a job is counted, where it is not by its name."""
COUNTED = ("ready", "running", "scheduled", "retrying", "dead")


class Pair(RuleBasedStateMachine):
    """A store beside the oracle. Subclasses say which store."""

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        # Runner.run would install a signal handler for each of thousands of short calls.
        self.run = self.runner.get_loop().run_until_complete
        clock = HandClock()
        self.model = Side(OracleStore(SETTINGS, clock), clock, self.run)
        self.other = self.run(self.open_subject())
        self.forgotten: set[str] = set()

    async def open_subject(self) -> Side:
        """A fresh store with its clock."""
        raise NotImplementedError

    async def close_subject(self) -> None:
        """Let go of it."""
        raise NotImplementedError

    def both(self, name: str, *args: Any) -> Answer:
        """Do the same on both sides; the answers must be equal."""
        expected, answer = (side.do(name, *args) for side in (self.model, self.other))
        assert answer == expected, f"{name}{args}: the model says {expected}, the store {answer}"
        return expected

    # -- after every step -------------------------------------------------------------------------------

    @invariant()
    def the_same_jobs_in_the_same_states(self) -> None:
        for side in (self.model, self.other):
            self.run(side.look())
        expected, actual = self.model.unfinished(), self.other.unfinished()
        wrong = {
            label: (expected.get(label), actual.get(label))
            for label in expected.keys() | actual.keys()
            if expected.get(label) != actual.get(label)
        }
        assert not wrong, f"the model and the store differ: {wrong}"
        ended = self.other.finished()
        for label, answer in self.model.finished().items():
            assert ended.get(label) == answer, (
                f"{label}: the model says {answer}, the store {ended.get(label)}"
            )
        extra = ended.keys() - self.model.finished().keys() - self.forgotten
        assert not extra, f"the model does not know {extra}"

    @invariant()
    def the_same_depth(self) -> None:
        expected, actual = (self.run(side.depth()) for side in (self.model, self.other))
        assert counts(actual) == counts(expected), f"depth: {counts(actual)}, the model {counts(expected)}"
        if self.model.set_back:
            return  # the heads of lanes may be younger than those behind them, and not all look at these
        for queue, depth in expected.items():
            oldest = actual[queue].oldest
            assert actual[queue].pending_parts == depth.pending_parts, queue
            same = (
                oldest == depth.oldest
                if oldest is None or depth.oldest is None
                else (abs(oldest - depth.oldest) < STEP / 2)
            )
            assert same, f"oldest in {queue}: the model says {depth.oldest}, the store {oldest}"

    @invariant()
    def the_same_ends(self) -> None:
        """[M7] However much of them is counted by now."""
        expected, actual = (ends(self.run(side.store.ended())) for side in (self.model, self.other))
        assert actual == expected, f"ended: {actual}, the model says {expected}"

    def teardown(self) -> None:
        try:
            if sys.exc_info()[0] is None:  # a step that failed is the better story
                self.depth_is_a_scan()
                assert self.run(self.other.store.recount()) == []
        finally:
            self.run(self.close_subject())
            self.runner.close()

    def depth_is_a_scan(self) -> None:
        """[M1] The counts, which are kept without scanning, equal a scan of every job."""
        scan = {queue: dict.fromkeys(COUNTED, 0) for queue in self.run(self.other.depth())}
        for record in self.run(self.other.look()).values():
            if (counted := COUNTED_AS.get(record.state, str(record.state))) in COUNTED:
                scan[record.queue][counted] += 1
        depths = self.run(self.other.depth())
        for queue, standing in depths.items():
            scan[queue]["ready"] += standing.pending_parts  # no jobs yet
        depth = counts(depths)
        assert depth == scan, f"depth says {depth}, a scan {scan}"


def ends(samples: list[Sample]) -> dict[tuple[str, str], dict[str, int]]:
    """What has ended, by queue and task."""
    return {(each.queue, each.task): each.counts for each in samples}


def counts(depths: dict[str, Any]) -> dict[str, dict[str, int]]:
    """The countable part of a depth."""
    return {queue: {state: getattr(depth, state) for state in COUNTED} for queue, depth in depths.items()}
