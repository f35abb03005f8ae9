"""What a parent does next [P9]."""

from itertools import product
from typing import Any

import pytest

from windlass.core.parents import Standing, Step, next_step, why_dead
from windlass.core.states import FINISHED, State

NONE: dict[str, Any] = {
    "pending": 0,
    "out": 0,
    "waiting": 0,
    "dead": 0,
    "cancelled": 0,
    "parallel": 2,
    "tolerated": 0,
}


@pytest.mark.parametrize(
    ("change", "step"),
    [
        ({"pending": 3}, Step.OFFER),
        ({"pending": 3, "out": 1}, Step.OFFER),
        ({"pending": 3, "out": 2}, Step.WAIT),
        ({"pending": 3, "out": 5}, Step.WAIT),  # `parallel` was made less
        ({"out": 1}, Step.WAIT),
        ({}, Step.SUCCEED),
        ({"dead": 1}, Step.DIE),
        ({"cancelled": 1}, Step.DIE),
        ({"dead": 1, "cancelled": 1, "tolerated": 1}, Step.DIE),
        ({"dead": 1, "cancelled": 1, "tolerated": 2}, Step.SUCCEED),
        ({"dead": 5, "out": 1}, Step.WAIT),
        ({"dead": 5, "pending": 1}, Step.OFFER),
    ],
)
def test_parts(change: dict[str, Any], step: Step) -> None:
    """[P9] A parent ends only when none of its parts is left."""
    assert next_step(Standing(**{**NONE, **change})) is step


@pytest.mark.parametrize(
    ("final", "step"),
    [
        (None, Step.FINALIZE),
        (State.READY, Step.WAIT),
        (State.RUNNING, Step.WAIT),
        (State.RETRYING, Step.WAIT),
        (State.SCHEDULED, Step.WAIT),
        (State.SUCCEEDED, Step.SUCCEED),
        (State.DEAD, Step.DIE),
        (State.CANCELLED, Step.CANCEL),
    ],
)
def test_the_finalizer_has_the_last_word(final: State | None, step: Step) -> None:
    """[P9]"""
    assert next_step(Standing(**NONE, finalizer=True, final=final)) is step


def test_no_finalizer_after_too_many_failures() -> None:
    """[P9]"""
    assert next_step(Standing(**{**NONE, "dead": 1}, finalizer=True)) is Step.DIE


@pytest.mark.parametrize("out", [0, 1])
@pytest.mark.parametrize("final", [None, *State])
def test_cancel(out: int, final: State | None) -> None:
    """[P9] Nothing more is offered, and the parent is cancelled when the last of what is out has ended."""
    standing = Standing(**{**NONE, "pending": 3, "out": out}, cancelling=True, finalizer=True, final=final)
    busy = out or (final is not None and final not in FINISHED)
    assert next_step(standing) is (Step.WAIT if busy else Step.CANCEL)


@pytest.mark.parametrize("parallel", [1, 2, 7])
def test_it_always_ends(parallel: int) -> None:
    """[P9] From any plan, whatever its parts do, in at most two steps a part and one of its own."""
    for parts, failures, finalizer in product(range(5), range(3), (False, True)):
        pending, out, dead, steps = parts, 0, 0, 0
        final: State | None = None
        while True:
            standing = Standing(
                pending=pending,
                out=out,
                waiting=0,
                dead=dead,
                cancelled=0,
                parallel=parallel,
                tolerated=1,
                finalizer=finalizer,
                final=final,
            )
            step = next_step(standing)
            steps += 1
            assert steps <= 2 * parts + 2
            assert out <= parallel
            if step is Step.OFFER:
                pending, out = pending - 1, out + 1
            elif step is Step.WAIT:
                out, dead = out - 1, min(dead + 1, failures)
            elif step is Step.FINALIZE:
                final = State.SUCCEEDED
            else:
                break
        assert step is (Step.DIE if min(parts, failures) > 1 else Step.SUCCEED)


def test_the_reason_of_a_dead_parent() -> None:
    """[P9]"""
    assert why_dead(Standing(**{**NONE, "dead": 2, "cancelled": 1, "tolerated": 1})) == (
        "3 of its parts failed, 1 is tolerated"
    )
    assert why_dead(Standing(**NONE, finalizer=True, final=State.DEAD)) == "its finalizer is dead"
