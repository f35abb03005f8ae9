"""The options of an enqueue [E2]: each reaches the store, and what is out of range is refused [E4]."""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any, get_args, get_type_hints

import pytest

from tests.tasks.counting import count_jobs
from windlass import Priority, Retry, Snooze, State, Throttled, Windlass
from windlass.errors import ConfigurationError, InvalidName, InvalidOption
from windlass.store.fields import JobOptions
from windlass.store.records import JOB_OPTIONS
from windlass.tasks.task import Task


def test_e2_every_option_reaches_the_store(any_app: Windlass) -> None:
    job = (
        any_app.named("the.task")
        .using(
            queue="elsewhere",
            priority="high",
            delay="1h30m",
            max_attempts=3,
            timeout=timedelta(seconds=20),
            unique="u",
            fair_key="tenant-1",
            tags=["a", "b"],
            headers={"x": "y"},
            trace="00-abc-def-01",
        )
        .enqueue(1)
    )
    record = job.record()
    assert (record.queue, record.priority, record.state) == ("elsewhere", Priority.HIGH, State.SCHEDULED)
    assert record.run_at is not None
    assert abs(record.run_at - record.enqueued_at - timedelta(seconds=5400)) < timedelta(seconds=5)
    options = record.options
    assert (options.max_attempts, options.timeout, options.unique_key) == (3, 20.0, "u")
    assert (options.fair_key, options.tags) == ("tenant-1", ("a", "b"))
    assert (options.headers, options.trace) == ({"x": "y"}, "00-abc-def-01")


def test_e2_a_tasks_own_options_are_its_jobs_defaults(app: Windlass) -> None:
    @app.task(queue="mail", priority="low", retry=Retry(9), tags=["mail"], timeout="5s")
    def send() -> None: ...

    record = send.enqueue().record()
    assert (record.queue, record.priority) == ("mail", Priority.LOW)
    assert (record.options.max_attempts, record.options.tags) == (9, ("mail",))
    record = send.using(queue="bulk", max_attempts=2).enqueue().record()
    assert (record.queue, record.options.max_attempts, record.options.tags) == ("bulk", 2, ("mail",))


def test_e8_a_task_says_how_long_its_jobs_may_wait(any_app: Windlass) -> None:
    @any_app.task(expires="10m")
    def send() -> None: ...

    record = send.enqueue().record()
    assert record.options.expires == 600.0
    assert record.options.expires_at == pytest.approx(record.enqueued_at.timestamp() + 600, abs=1)
    later = send.using(delay="1h", expires="1m").enqueue().record()
    assert later.options.expires_at == pytest.approx(later.enqueued_at.timestamp() + 3660, abs=1)
    with pytest.raises(InvalidOption, match="expires"):
        send.using(expires=0)


def test_e2_options_add_up_and_later_ones_win(app: Windlass) -> None:
    base = app.named("the.task").using(delay="1h", tags=["a"])
    moment = datetime(2030, 1, 1, tzinfo=UTC)
    record = base.using(run_at=moment, priority=0).enqueue().record()
    assert (record.run_at, record.priority, record.options.tags) == (moment, Priority.URGENT, ("a",))
    assert base.enqueue().record().priority == Priority.NORMAL


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"priority": "top"}, "priority"),
        ({"priority": 4}, "priority"),
        ({"delay": "soon"}, "delay"),
        ({"delay": -1}, "delay"),
        ({"delay": math.nan}, "delay"),
        ({"delay": "60000d"}, "delay"),
        ({"delay": 1, "run_at": 1}, "delay and run_at"),
        ({"run_at": datetime(2030, 1, 1)}, "time zone"),  # noqa: DTZ001
        ({"run_at": datetime(9999, 1, 1, tzinfo=UTC)}, "out of range"),
        ({"run_at": -1}, "out of range"),
        ({"run_at": math.inf}, "run_at"),
        ({"run_at": "tomorrow"}, "run_at"),
        ({"max_attempts": 0}, "max_attempts"),
        ({"max_attempts": True}, "max_attempts"),
        ({"max_attempts": 1.5}, "max_attempts"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": "31d"}, "timeout"),
        ({"unique": ""}, "unique"),
        ({"unique": 5}, "unique"),
        ({"unique": "a\0"}, "unique"),
        ({"unique": "\ud800"}, "unique"),
        ({"idempotency_key": "k" * 256}, "idempotency_key"),
        ({"fair_key": None}, "fair_key"),
        ({"on_conflict": "merge"}, "on_conflict"),
        ({"tags": "mail"}, "tags"),
        ({"tags": ["a"] * 33}, "tags"),
        ({"tags": [""]}, "tags"),
        ({"headers": ["a"]}, "headers"),
        ({"headers": {"a": 1}}, "headers"),
        ({"headers": {"a": "x" * 5000}}, "headers"),
        ({"trace": "x" * 300}, "trace"),
        ({"ordering_key": ""}, "ordering_key"),
        ({"concurrency_key": "k" * 300}, "concurrency_key"),
        ({"key_limit": 0}, "key_limit"),
        ({"colour": "red"}, "colour"),
    ],
)
def test_e4_an_option_out_of_range_is_refused(app: Windlass, options: dict[str, Any], named: str) -> None:
    with pytest.raises(InvalidOption, match=named):
        app.named("the.task").using(**options).enqueue()
    assert count_jobs(app) == 0


@pytest.mark.parametrize("name", ["", "a" * 65, "Mail", "a b", "a/b", "ä", "a\n", "a\0", 5, None])
def test_e4_a_malformed_name_is_refused(app: Windlass, name: Any) -> None:
    with pytest.raises(InvalidName, match="queue name"):
        app.named("the.task").using(queue=name or "").enqueue()
    with pytest.raises(InvalidName, match="task name"):
        app.enqueue(name)
    assert count_jobs(app) == 0


def test_a_mistake_in_a_tasks_declaration_shows_at_once(app: Windlass) -> None:
    with pytest.raises(InvalidName):
        app.task(queue="Not A Queue")(lambda: None)
    with pytest.raises(InvalidOption, match="timeout"):
        app.task(timeout=0)(lambda: None)
    with pytest.raises(ConfigurationError, match="no option colour"):
        app.task(colour="red")(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="retry=3 is not a policy"):
        app.task(retry=3)(lambda: None)  # type: ignore[call-overload]
    with pytest.raises(ConfigurationError, match="from 1 to 1000"):
        Retry(0)
    with pytest.raises(ConfigurationError, match="jitter"):
        Retry(3, jitter=2)
    with pytest.raises(ConfigurationError, match="jitter"):
        Retry(3, jitter="some")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"factor": 0.5}, "Retry(factor=0.5)"),
        ({"factor": 1001}, "Retry(factor=1001)"),
        ({"factor": float("nan")}, "Retry(factor=nan)"),
        ({"factor": True}, "Retry(factor=True)"),
        ({"factor": "4"}, "Retry(factor='4')"),
        ({"waits": "1m"}, "write waits=['1m', '4m', '16m']"),
        ({"waits": 60}, "write waits=['1m', '4m', '16m']"),
        ({"waits": []}, "names no wait"),
        ({"attempts": 2, "waits": ["1m", "4m", "16m"]}, "leave out 240 s, 960 s, or give 4 attempts"),
        ({"attempts": 1, "waits": [3]}, "leave out 3 s, or give 2 attempts"),
        ({"waits": [1] * 2000}, "1000 attempts have 999 waits between, and waits names 2000; leave out 1 s"),
        ({"waits": ["1m", "soon"]}, "Retry(waits='soon')"),
        ({"waits": ["1m", -1]}, "Retry(waits=-1)"),
        ({"waits": ["1m"], "base": "10s"}, "leave out base=, cap= and factor="),
        ({"waits": ["1m"], "cap": "1h"}, "leave out base=, cap= and factor="),
        ({"waits": ["1m"], "factor": 3}, "leave out base=, cap= and factor="),
        ({"waits": ["1m"], "after": "1m"}, "belong to a task's policy"),
        ({"factor": 4, "after": "1m"}, "belong to a task's policy"),
        ({"base": "1s", "after": "1m"}, "belong to a task's policy"),
    ],
)
def test_o2_a_policy_that_makes_no_sense_is_refused(given: dict[str, Any], told: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(told)):
        Retry(**given)


@pytest.mark.parametrize(
    ("policy", "attempts"),
    [
        (Retry(), 5),
        (Retry(factor=4), 5),
        (Retry(waits=["1m", "4m", "16m"]), 4),
        (Retry(waits=[1] * 7), 8),
        (Retry(waits=[1] * 999), 1000),
        (Retry(5, waits=["1m", "4m", "16m"]), 5),
    ],
)
def test_o2_each_wait_that_is_named_is_waited(policy: Retry, attempts: int) -> None:
    """Where nothing else is said: of seven waits the last three were never used."""
    assert policy.attempts == attempts


def test_p12_where_nothing_can_fail_nothing_runs_for_it(app: Windlass) -> None:
    undo = app.named("undo").using(otherwise="run_only")
    for empty in (undo, undo.using(after=[])):
        with pytest.raises(InvalidOption, match="comes after others"):
            empty.enqueue()
        with pytest.raises(InvalidOption, match=r"item 0: .*comes after others"):
            empty.enqueue_many([()])
    assert undo.using(after=[app.enqueue("first")]).enqueue().receipt == "scheduled"


@pytest.mark.parametrize(
    ("make", "named"),
    [
        (lambda: Retry(3, base="soon"), "Retry(base='soon')"),
        (lambda: Retry(3, cap=-1), "Retry(cap=-1)"),
        (lambda: Retry(after="soon"), "Retry(after='soon')"),
        (lambda: Snooze("soon"), "Snooze(delay='soon')"),
        (lambda: Throttled("soon"), "Throttled(retry_after='soon')"),
    ],
)
def test_a_time_that_is_none_is_told_with_its_name(make: Callable[[], object], named: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(named)):
        make()


def test_what_using_takes_is_what_the_entries_say() -> None:
    """[E2] So mypy and readers see the same options."""
    taken = get_type_hints(Task.using, localns={"Self": Any})["options"]
    assert get_args(taken) == (JobOptions,)
    assert list(JOB_OPTIONS) == list(JobOptions.__annotations__)


@pytest.mark.parametrize("name", [name for name in JOB_OPTIONS if name not in ("connection", "queue")])
def test_e4_what_is_no_value_of_an_option_is_refused_by_its_name(app: Windlass, name: str) -> None:
    nonsense: dict[str, Any] = {"unique": "k", name: object()}
    with pytest.raises(InvalidOption, match=f"^{name}: "):
        app.named("the.task").using(**nonsense)
