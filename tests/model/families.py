"""Parents and their parts [P4] [P9]: split, redriven, cancelled, with more or fewer parts at a time."""

from hypothesis import strategies as st
from hypothesis.stateful import invariant

from tests.model.metered import Metered
from tests.model.steps import Draw, Steps, action
from tests.model.wishes import FAMILIES, jobs_of
from windlass.core.states import State


def somebody_splits(machine: Steps) -> list[tuple[int, str]]:
    """Claims of jobs that are about to be parents."""
    running = {label for label, record in machine.model.seen.items() if record.state is State.SPLITTING}
    return sorted(
        (worker, label) for worker in machine.alive for label in machine.known[worker] if label in running
    )


class Families(Metered):
    """Actions on parents. Their parts run, end and are managed as all jobs are."""

    @action(2, theme="families")
    def enqueue_parent(self, data: Draw) -> None:
        """Some with a unique key, which stays theirs until they end, or with gates, which let parts in."""
        limits = data.draw(st.sampled_from(["", "", "key", "order", "order key"]), label="gates")
        wish = {
            "task": "p",
            "queue": FAMILIES,
            "priority": 2,
            "steps": 0,
            "max_attempts": data.draw(st.integers(1, 2), label="attempts"),
            "chunked": True,
            "unique_key": data.draw(st.sampled_from([None, None, "x", "y"]), label="key"),
            "ordering_key": "s" if "order" in limits else None,
            "concurrency_key": "t" if "key" in limits else None,
            "key_limit": data.draw(st.integers(1, 3), label="limit"),
        }
        if self.alone:
            self.both("promote", 1000)
        jobs = jobs_of([wish], self.numbers, self.delay)
        self.same_receipts(*(side.do("enqueue", jobs) for side in (self.model, self.other)))

    @action(4, theme="families")
    def claim_parts(self, data: Draw) -> None:
        """And perhaps run those of them that are parts."""
        worker = self.worker(data)
        given = [job[0] for job in self.claim_all(worker, FAMILIES)]
        self.known[worker] += given
        parts = [label for label in given if "/" in label]
        if data.draw(st.booleans(), label="run") and parts:
            self.end(data, worker, parts)

    @action(4, somebody_splits, theme="families")
    def split(self, data: Draw) -> None:
        worker, label = data.draw(st.sampled_from(somebody_splits(self)), label="claim")
        parts = data.draw(st.integers(0, 4), label="parts")
        parallel = data.draw(st.integers(1, 3), label="parallel")
        tolerated = data.draw(st.integers(0, 2), label="tolerated")
        finalizer = data.draw(st.booleans(), label="finalizer")
        flush = next(self.flushes[worker])
        for _ in range(data.draw(st.sampled_from([1, 1, 2]), label="times")):  # the answer may be lost
            self.both("split", worker, flush, label, parts, parallel, tolerated, finalizer)
        self.known[worker].remove(label)

    @action(3, lambda machine: machine.model.parents, theme="families")
    def redrive(self, data: Draw) -> None:
        """Rather such as have failed parts."""
        families = self.model.do("families")
        failed = [label for label, (parent, _) in families.items() if parent["dead"] or parent["cancelled"]]
        self.both("redrive", data.draw(st.sampled_from(sorted(failed or self.model.parents)), label="parent"))

    @action(1, lambda machine: machine.model.parents, theme="families")
    def set_parallel(self, data: Draw) -> None:
        label = data.draw(st.sampled_from(sorted(self.model.parents)), label="parent")
        self.both("set_parent", label, data.draw(st.integers(1, 3), label="parallel"))

    @invariant()
    def the_same_families(self) -> None:
        if "families" in self.themes:
            self.both("families")
