"""Jobs that wait at gates [F3] [F6]: ordering keys, concurrency keys and limits of tasks, which change while
claims are held.

They have queues of their own. When those who stand aside come to their lane differs from store to store, and
so does their order there; so claims of these queues take all there is, and what they give is compared as a
whole. Who is let through, in which order, and who waits where is compared exactly.

These queues are never paused, and somebody always serves them: at which moment a job that nobody would run
gives its slots back is the store's own affair, and so is its place afterwards. What others may rely on is in
tests/conformance/test_shut_queues.py.
"""

from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tests.model.steps import Draw, action
from tests.model.waits import Waits
from tests.model.wishes import FAMILIES, GATED, jobs_of, steps
from windlass.core.states import Priority
from windlass.store.protocol import NOTHING
from windlass.store.records import Needs

LIMITS = st.sampled_from([None, 1, 1, 2, 3])
APART = {
    "order": ("r", "op", ""),
    "key": ("r", "", "k"),
    "task": ("v", "", ""),
    "order key": ("r", "q", "l"),
    "key task": ("w", "", "m"),
}
"""By the gates of a job: a task and keys that no others have, so that all come to a gate from one side."""


@st.composite
def gated_wishes(draw: st.DrawFn, apart: bool) -> dict[str, Any]:
    """A job with one gate or several. With `apart` nobody who comes from one gate meets those who come from
    another, or from nowhere: who of them is first is the store's own affair where they do so in one step."""
    gates = draw(st.sampled_from(sorted(APART) if apart else [*sorted(APART), "order key task"]))
    tasks, orders, keys = APART[gates] if apart else ("vw", "op", "kl")
    return {
        "task": draw(st.sampled_from(tasks)),
        "queue": draw(st.sampled_from(GATED)),
        "priority": draw(st.sampled_from([Priority.NORMAL, Priority.HIGH])),
        "steps": draw(steps),
        "max_attempts": draw(st.integers(1, 3)),
        "ordering_key": draw(st.sampled_from(orders)) if "order" in gates else None,
        "concurrency_key": draw(st.sampled_from(keys)) if "key" in gates else None,
        "key_limit": draw(st.integers(1, 2)),
        "task_limit": draw(LIMITS) if "task" in gates else None,
    }


class Gated(Waits):
    """Producers and operators of gates, and the workers who claim what has come through."""

    @action(3, theme="gates")
    def enqueue_gated(self, data: Draw) -> None:
        """One at a time where a call's jobs would come to their gates in no order."""
        wanted = data.draw(st.lists(gated_wishes(self.late), min_size=1, max_size=3), label="jobs")
        expected, answer = (
            side.do("enqueue", jobs)
            for jobs in [jobs_of(wanted[: 1 if self.late else 3], self.numbers, self.delay)]
            for side in (self.model, self.other)
        )
        self.same_receipts(expected, answer)

    def same_receipts(self, expected: Any, answer: Any) -> None:
        """Where there is room at once, a job is held or enqueued as the store likes."""
        likes = {"held", "enqueued"} if self.late else set()
        if isinstance(expected, tuple) or isinstance(answer, tuple):  # refused
            assert expected == answer
            return
        for (due, label), (status, given) in zip(expected, answer, strict=True):
            assert label == given
            assert status == due or {status, due} <= likes, (
                f"{label}: the model says {due}, the store {status}"
            )

    @action(4, theme="gates")
    def claim_gated(self, data: Draw) -> None:
        worker, queue = self.worker(data), data.draw(st.sampled_from(GATED), label="queue")
        self.known[worker] += [job[0] for job in self.claim_all(worker, queue)]

    def claim_all(self, worker: int, queue: str, needs: Needs = NOTHING) -> list[Any]:
        """Claim until the lanes are empty: one that has seen a death ends an answer, and so may one that has
        to wait after all."""
        answers: list[list[Any]] = []
        for side in (self.model, self.other):
            answers.append([])
            while more := side.do("claim", worker, [queue], 1000, needs) or self.run(side.in_lanes(queue)):
                answers[-1] += more if isinstance(more, list) else []
        expected, answer = answers
        assert sorted(answer) == sorted(expected), f"the model gives {expected}, the store {answer}"
        return expected

    @action(1, theme="gates")
    def limit_a_task(self, data: Draw) -> None:
        """Set, changed or taken away, whoever runs."""
        task = data.draw(st.sampled_from("vw"), label="task")
        setting = data.draw(st.sampled_from(["concurrency", "key_concurrency"]), label="setting")
        self.both("set_task", task, {setting: data.draw(LIMITS, label="limit")})

    @invariant()
    def the_same_lines(self) -> None:
        if not {"gates", "budgets", "families"} & set(self.themes):
            return
        self.both("gates")
        for queue in (*GATED, FAMILIES):
            self.both("watermarks", queue)
