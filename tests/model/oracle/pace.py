"""The pace of a governed queue: the rate that claims keep to, and how runs went since the last look at them
[F2]."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from windlass.core.flow.bucket import Bucket
from windlass.core.flow.governor import Governor, burst
from windlass.store.records import QueueRecord, Runs


@dataclass(eq=False)
class Pace:
    """What the governor of a queue knows, the tokens of its rate, and the runs since its last look."""

    bucket: Bucket
    governor: Governor | None = None
    runs: Runs = field(default_factory=Runs)

    @property
    def why(self) -> str | None:
        """What was decided last."""
        return self.governor.why if self.governor is not None else None

    @classmethod
    def first(cls, queue: QueueRecord, now: float) -> Pace:
        """That of a queue whose governor has not looked yet."""
        rate = Governor.first(queue.rate_min, queue.rate_max).rate
        return cls(Bucket.full(rate, burst(rate), now))

    def add(self, runs: Runs) -> None:
        """Remember runs for the next look."""
        self.runs = Runs(
            succeeded=self.runs.succeeded + runs.succeeded,
            failed=self.runs.failed + runs.failed,
            throttled=self.runs.throttled + runs.throttled,
            times=dict(Counter(self.runs.times) + Counter(runs.times)),
        )

    def soon(self, now: float) -> float:
        """Seconds until another job may be claimed."""
        return self.bucket.wait(1, now)

    def spend(self, n: int, now: float) -> None:
        """So many jobs are claimed, which there was room for."""
        left = self.bucket.take(n, now)
        assert left is not None, "ask first"
        self.bucket = left

    def follow(self, governor: Governor, now: float) -> None:
        """Keep to what was decided."""
        self.governor = governor
        self.bucket = self.bucket.changed(governor.rate, burst(governor.rate), now)
