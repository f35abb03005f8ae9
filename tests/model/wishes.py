"""What the actors of the state machine may wish for: jobs, ends of attempts, delays, verbs."""

from collections.abc import Callable, Iterator
from typing import Any

from hypothesis import strategies as st

from windlass.core.states import Kind, Priority, State
from windlass.store.records import NewJob, Options

STEP = 100.0
"""Seconds by which time moves at least."""

QUEUES = ("a", "b")
GATED = ("g", "h")
"""The queues of jobs with gates."""
METERED = "m"
"""The queue of jobs that need tokens."""
FAMILIES = "p"
"""The queue of parents and parts."""
SET_ASIDE = (*GATED, METERED, FAMILIES)

OPTIONS = (
    "unique_key", "fair_key", "max_attempts", "otherwise",
    "ordering_key", "concurrency_key", "key_limit", "task_limit", "chunked", "costs",
    "needs",
)  # fmt: skip
PUT_OFF = (Kind.RETRY, Kind.SNOOZE, Kind.THROTTLED, Kind.UNKNOWN)
KINDS = (Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED, Kind.RELEASED, Kind.RETRY, *PUT_OFF)
STEERING = (
    ("cancel", (State.RUNNING,)),
    ("cancel", (State.READY, State.SCHEDULED, State.RETRYING)),
    ("delete", (State.READY, State.SCHEDULED, State.RETRYING, State.DEAD)),
    ("retry", (State.DEAD,)),
    ("retry", (State.SCHEDULED, State.RETRYING)),
)
"""The operator's verbs, each with states in which it has something to do."""

steps = st.sampled_from([0, 0, 1, 2, 15])
"""How many steps of the clock to put a job off; 0 is at once."""


@st.composite
def wishes(draw: st.DrawFn) -> dict[str, Any]:
    """What a producer wants of one job."""
    kind = draw(
        st.sampled_from(["plain", "plain", "delayed", "unique", "unique", "fair", "once", "expires", "any"])
    )
    every = kind == "any"
    return {
        "task": draw(st.sampled_from("tu")),
        "queue": draw(st.sampled_from(QUEUES)),
        "priority": draw(st.sampled_from([Priority.NORMAL, Priority.NORMAL, Priority.HIGH, Priority.LOW])),
        "steps": draw(steps) if kind == "delayed" or every else 0,
        "unique_key": draw(st.sampled_from("xyz")) if kind == "unique" or every else None,
        "on_conflict": draw(st.sampled_from(["skip", "replace", "skip", "replace", "reject"])),
        "fair_key": draw(st.sampled_from("fgh")) if kind == "fair" or every else None,
        "idempotency_key": draw(st.sampled_from("rst")) if kind == "once" or every else None,
        "max_attempts": draw(st.integers(1, 3)),
        "needs": draw(st.sampled_from([None, "gpu", None])),
        "expires": draw(steps) if kind == "expires" or every else 0,
    }


def jobs_of(
    wanted: list[dict[str, Any]], numbers: Iterator[int], delay: Callable[[int], float]
) -> list[NewJob]:
    """The jobs that were wished for, each with a label of its own."""
    jobs = []
    for wish in wanted:
        number = next(numbers)
        options = {name: wish[name] for name in OPTIONS if name in wish}
        if wish.get("expires"):
            # From its time on, which ends half a step after a step of the clock itself.
            options["expires"] = delay(wish["expires"]) + (STEP / 2 if wish["steps"] else 0.0)
        jobs.append(
            NewJob(
                task=wish["task"],
                payload=f'{{"job": "j{number}"}}',
                queue=wish["queue"],
                priority=wish["priority"],
                delay=delay(wish["steps"]) or None,
                options=Options(**options),
                on_conflict=wish.get("on_conflict", "skip"),
                idempotency_key=wish.get("idempotency_key"),
            )
        )
    return jobs


def fair_job(number: int, queue: str, key: str) -> NewJob:
    """One of many that share a lane by turns."""
    return NewJob(task="t", payload=f'{{"job": "j{number}"}}', queue=queue, options=Options(fair_key=key))
