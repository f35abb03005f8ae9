"""Jobs that need tokens of budgets [F1], which change and are taken from by hand meanwhile.

Budgets grow by a whole number of tokens with every step of the clock, and a run of the machine is too short
for one more: so how many there are is the same on both sides, but for a fraction.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tests.model.gated import Gated
from tests.model.steps import Draw, action
from tests.model.wishes import METERED, STEP, jobs_of, steps
from windlass.store.records import Need

BUDGETS = ("x", "y")
NEEDS = {
    "m": [Need("x")],
    "n": [Need("x", 2)],
    "o": [Need("x"), Need("y")],
    "p": [Need("x", costed=True)],
}
"""What each task needs. Who needs two budgets may wait for one after the other. Jobs of `p` say how many."""


@st.composite
def metered_wishes(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "task": draw(st.sampled_from(sorted(NEEDS))),
        "queue": METERED,
        "priority": 2,
        "steps": draw(steps),
        "max_attempts": draw(st.integers(1, 3)),
        "costs": draw(st.sampled_from([{}, {"x": 1}, {"x": 2}, {"x": 3}])),
    }


class Metered(Gated):
    """Budgets, and workers who take tokens for what they claim."""

    def declare_budgets(self) -> None:
        for budget in BUDGETS:
            self.both("set_budget", budget, {"rate": 1 / STEP, "burst": 2})

    @action(2, theme="budgets")
    def enqueue_metered(self, data: Draw) -> None:
        wanted = data.draw(st.lists(metered_wishes(), min_size=1, max_size=3), label="jobs")
        self.both("enqueue", jobs_of(wanted, self.numbers, self.delay))

    @action(3, theme="budgets")
    def claim_metered(self, data: Draw) -> None:
        """Those who find no tokens stand in line from then on. How far along its lane a claim with a limit
        looks for others is the store's own affair."""
        worker = self.worker(data)
        limit = 1000 if self.late else data.draw(st.sampled_from([1, 2, 1000]), label="limit")
        if limit == 1000:
            given = self.claim_all(worker, METERED, NEEDS)
        else:
            given = self.both("claim", worker, [METERED], limit, NEEDS)
        self.known[worker] += [job[0] for job in given]

    @action(1, theme="budgets")
    def change_budget(self, data: Draw) -> None:
        """Also to a burst below what somebody waits for."""
        rate = data.draw(st.sampled_from([0, 1, 2]), label="tokens in a step") / STEP
        burst = data.draw(st.integers(1, 4), label="burst")
        self.both(
            "set_budget", data.draw(st.sampled_from(BUDGETS), label="budget"), {"rate": rate, "burst": burst}
        )

    @action(1, theme="budgets")
    def take_by_hand(self, data: Draw) -> None:
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        self.both("take", budget, data.draw(st.integers(1, 3), label="n"))

    @action(1, theme="budgets")
    def take_together(self, data: Draw) -> None:
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        needs = data.draw(st.lists(st.integers(1, 3), min_size=1, max_size=3), label="needs")
        self.both("lease", budget, needs)

    @action(1, theme="budgets")
    def settle(self, data: Draw) -> None:
        """Also into a debt."""
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        self.both("settle", budget, data.draw(st.integers(-2, 4), label="more"))

    @action(1, theme="budgets")
    def say_what_was_spent(self, data: Draw) -> None:
        """By the run that took tokens, by one that took none, or by one that has lost its job meanwhile."""
        if busy := [worker for worker in self.known if self.known[worker]]:
            worker = data.draw(st.sampled_from(busy), label="worker")
            label = data.draw(st.sampled_from(self.known[worker]), label="job")
            self.both("spent", worker, label, data.draw(st.integers(0, 4), label="tokens"))

    @action(1, theme="budgets")
    def give_back(self, data: Draw) -> None:
        budget = data.draw(st.sampled_from(BUDGETS), label="budget")
        self.both("give_back", budget, data.draw(st.integers(1, 2), label="n"))

    @invariant()
    def the_same_budgets(self) -> None:
        if "budgets" in self.themes:
            self.both("budgets")
