"""Jobs that come after others [P12], and queues that are paused for longer than a step."""

from typing import get_args

from hypothesis import strategies as st

from tests.model.steps import Draw, Steps, action
from tests.model.wishes import QUEUES, jobs_of, wishes
from windlass.store.fields import Otherwise
from windlass.store.records import NewJob


class Edges(Steps):
    """Producers who ask for an order, and an operator who stops a queue."""

    @action(3, lambda machine: machine.model.seen, theme="edges")
    def enqueue_after(self, data: Draw) -> None:
        """After jobs in whatever state, also after such as wait for others themselves."""
        pool = sorted(self.model.seen)
        after = data.draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True), label="after")
        wish = data.draw(wishes(), label="job")
        wish["otherwise"] = data.draw(st.sampled_from(get_args(Otherwise)), label="otherwise")
        if wish["unique_key"] and self.alone:
            self.both("promote", 1000)
        jobs: list[NewJob] = jobs_of([wish], self.numbers, self.delay)
        self.both("enqueue", jobs, after)

    @action(1, theme="lanes")
    def pause_or_resume(self, data: Draw) -> None:
        """Whatever else happens to a queue meanwhile, it gives out nothing."""
        queue = data.draw(st.sampled_from(QUEUES), label="queue")
        self.both(
            "set_queue", queue, {"paused": data.draw(st.sampled_from([True, False, False]), label="paused")}
        )
