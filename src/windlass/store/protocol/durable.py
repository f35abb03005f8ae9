"""What a store promises to jobs that go on where they stopped [W1]."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from windlass.store import records


class Durable(Protocol):
    """Steps of jobs: written once, found by every later attempt."""

    async def save_step(self, worker: int, job: records.ClaimedJob, step: records.Step) -> records.Step:
        """Make a step durable, and answer with it as it stands: where one of this name is there already, that
        one. A sleep begins with this call. Raises WorkerLost or ClaimLost [C5]. May be sent again."""

    def saving_step(
        self, worker: int, job: records.ClaimedJob, step: Callable[[], records.Step]
    ) -> AbstractAsyncContextManager[Any]:
        """A transaction of the handler's own in which a step is done: as `Store.saving`, with a step instead
        of a checkpoint. Where the step is there already, it raises ClaimLost and nothing is committed."""

    async def steps(self, job: int) -> list[records.Step]:
        """The steps of a job, in the order in which they were written. They stay when the job has ended, for
        as long as the store shows the job."""
