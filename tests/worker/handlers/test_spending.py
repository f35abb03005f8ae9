"""What the store is told of what a run used: the age of its tokens says for which period they count [F1]."""

import time

from windlass.store.records import ClaimedJob, Need, Options
from windlass.store.sqlite import SQLiteStore
from windlass.worker.engine.feedback import Feedback
from windlass.worker.handlers.spending import Spending

NEEDS = {"t": [Need("b", 3)]}
JOB = ClaimedJob(
    id=1, lane=1, claim=7, seq=1, task="t", payload="{}", queue="q", priority=2, attempt=1, deaths=0,
    options=Options(), enqueued_at=0.0,
)  # fmt: skip


def test_f1_a_run_says_how_old_its_tokens_are() -> None:
    feedback = Feedback(SQLiteStore(":memory:"), NEEDS)
    before = time.monotonic()
    feedback.claimed(JOB.claim)
    after = time.monotonic()
    spending = Spending(NEEDS, feedback.claimed_at)
    while time.monotonic() - after < 0.001:
        pass
    least = time.monotonic() - after
    said = spending.said(JOB, "b", 5)
    assert least <= said["age"] <= time.monotonic() - before


def test_f1_what_it_said_last_is_what_it_used_before() -> None:
    spending = Spending(NEEDS, lambda claim: time.monotonic())
    assert (spending.said(JOB, "b", 5)["before"], spending.said(JOB, "b", 5)["tokens"]) == (3, 5)
    spending.note(JOB, "b", 5)
    assert spending.said(JOB, "b", 7)["before"] == 5
