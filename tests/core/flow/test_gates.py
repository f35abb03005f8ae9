"""Gates: which a job has to pass, in which order, and what is said of those who wait there [F3] [F6] [M4]."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from windlass.core.flow.gates import FAIR, Gate, budget_gate, gates_of, keeps, order_gate, reason
from windlass.store.records import Options

keys = st.none() | st.text(max_size=5)


def test_most_jobs_have_none() -> None:
    assert gates_of("mail", "send", Options(fair_key="ada")) == []


def test_f3_f6_the_narrowest_first() -> None:
    """[F3] [F6]"""
    options = Options(ordering_key="o/1", concurrency_key="c", key_limit=2, task_limit=5)
    assert gates_of("mail", "send", options) == [
        Gate("order:mail/o/1", 1),
        Gate("key:c", 2),
        Gate("task:send", 5),
    ]


def test_f3_settings_override_what_the_job_says() -> None:
    """[F3] And a task may be limited though its code says nothing."""
    options = Options(ordering_key="o", concurrency_key="c", key_limit=2, task_limit=5)
    limits = [gate.limit for gate in gates_of("mail", "send", options, concurrency=7, key_concurrency=3)]
    assert limits == [1, 3, 7]
    assert gates_of("mail", "send", Options(), concurrency=4, key_concurrency=9) == [Gate("task:send", 4)]


def test_f6_an_ordering_key_is_of_its_queue_and_a_concurrency_key_is_not() -> None:
    """[F6]"""
    options = Options(ordering_key="k", concurrency_key="k")
    a, b = (gates_of(queue, "send", options) for queue in ("a", "b"))
    assert a[0] != b[0]
    assert a[1] == b[1]


@given(keys, keys, st.none() | st.integers(1, 9))
def test_f3_a_gate_for_each_limit(ordering: str | None, concurrency: str | None, limit: int | None) -> None:
    """[F3]"""
    options = Options(ordering_key=ordering, concurrency_key=concurrency, task_limit=limit)
    gates = gates_of("mail", "send", options)
    assert (
        len({gate.name for gate in gates})
        == len(gates)
        == (ordering is not None) + (concurrency is not None) + (limit is not None)
    )


def test_f6_only_the_order_pass_outlives_an_attempt() -> None:
    """[F6]"""
    options = Options(ordering_key="o", concurrency_key="order:x/y", task_limit=1)
    assert [keeps(gate.name) for gate in gates_of("mail", "send", options)] == [True, False, False]
    assert not keeps(budget_gate("api"))


@pytest.mark.parametrize(
    ("gate", "text"),
    [
        (order_gate("mail", "a/b:c"), "waits for the jobs before it of ordering key 'a/b:c' in queue mail"),
        ("key:shop:7", "waits for a slot of concurrency key 'shop:7'"),
        ("task:mail.send", "waits for a slot of task mail.send"),
        (budget_gate("github"), "waits for tokens of budget github"),
        (budget_gate("github", "org/repo"), "waits for tokens of budget github, key 'org/repo'"),
        (FAIR, "waits for the turn of its fair key"),
    ],
)
def test_m4_why_a_job_waits(gate: str, text: str) -> None:
    """[M4]"""
    assert reason(gate) == text
