"""The backend keeps what django.tasks promises, and Windlass's own promises on top."""

import contextlib
import datetime
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from django.db import connections, transaction
from django.test import override_settings
from django.utils import timezone

from examples.django_shop.models import Order
from examples.django_shop.tasks import send_receipt
from tests.contrib.django import kit
from tests.contrib.django.kit import task
from tests.stored import stored
from windlass import Windlass
from windlass.contrib.django.api import InvalidTask, TaskResultDoesNotExist, signals, task_backends
from windlass.contrib.django.app import get_app, reread
from windlass.contrib.encryption import Encrypted
from windlass.core.states import Priority, State
from windlass.errors import QueueFull


def make_order(email: str = "ada@example.org") -> Any:
    order = Order.objects.create(email=email, cents=1999)
    return send_receipt.enqueue(order.id)


def count(app: Windlass) -> int:
    return app.jobs().count().jobs


@contextlib.contextmanager
def rolled_back() -> Iterator[None]:
    with transaction.atomic():
        yield
        transaction.set_rollback(True)


# -- transactions -----------------------------------------------------------------------------------------


def test_e1_an_order_and_its_job_commit_together(jobs: Windlass) -> None:
    with transaction.atomic():
        result = make_order()
        assert count(jobs) == 0
    assert count(jobs) == 1
    assert jobs.run_until_idle().succeeded == 1
    result.refresh()
    assert (str(result.status), result.return_value) == ("SUCCESSFUL", "ada@example.org")
    assert Order.objects.get().receipt_at is not None


def test_e1_a_rolled_back_order_leaves_no_job(jobs: Windlass) -> None:
    with rolled_back():
        make_order()
    assert (count(jobs), Order.objects.count()) == (0, 0)


def test_e1_on_postgresql_the_job_is_written_in_the_transaction(on_postgres: Windlass) -> None:
    with transaction.atomic():
        result = make_order()
        assert int(result.id) > 0
        with pytest.raises(TaskResultDoesNotExist, match="there is no job"):
            result.refresh()  # others cannot see it yet
        with rolled_back():  # a savepoint is enough
            make_order("eve@example.org")
    assert count(on_postgres) == 1


def test_elsewhere_a_job_is_enqueued_after_the_commit(on_sqlite: Windlass) -> None:
    with transaction.atomic():
        result = make_order()
        assert (result.id, result.enqueued_at) == ("", None)
        with pytest.raises(TaskResultDoesNotExist, match="none before it"):
            result.refresh()
    assert int(result.id) > 0
    assert result.enqueued_at is not None


def test_a_store_elsewhere_that_the_environment_names_awaits_the_commit_too(
    on_postgres: Windlass, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path.as_posix()}/jobs.db")
    reread(on_postgres)
    try:
        with rolled_back():
            make_order()
        assert count(on_postgres) == 0
        with transaction.atomic():
            result = make_order()
            assert (result.id, count(on_postgres)) == ("", 0)
        assert (int(result.id) > 0, count(on_postgres)) == (True, 1)
    finally:
        monkeypatch.undo()
        reread(on_postgres)


def test_one_that_is_refused_after_the_commit_takes_no_other_with_it(
    on_sqlite: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    kit.fail.enqueue("x")  # outside a transaction at once, and its errors are the caller's
    on_sqlite._store_handle().call(lambda store: store.set_queue("mail", {"max_depth": 1}))
    try:
        with transaction.atomic():
            refused = kit.fail.enqueue("refused")
            kept = kit.add.enqueue(1)
        assert (refused.id, kept.id != "") == ("", True)
        assert "QueueFull" in caplog.text
        with pytest.raises(QueueFull):
            kit.fail.enqueue("refused")
    finally:
        on_sqlite._store_handle().call(lambda store: store.set_queue("mail", {"max_depth": None}))


def test_or_at_once_where_that_is_asked_for(on_sqlite: Windlass) -> None:
    backend = {"BACKEND": "windlass.contrib.django.WindlassBackend", "QUEUES": []}
    with override_settings(TASKS={"default": {**backend, "OPTIONS": {"on_commit": False}}}):
        with rolled_back():
            result = make_order()
            assert int(result.id) > 0
        assert count(get_app()) == 1


# -- running ----------------------------------------------------------------------------------------------


def test_arguments_and_values_are_what_json_makes_of_them(jobs: Windlass) -> None:
    result = kit.add.enqueue(2, b=3)
    assert (result.args, result.kwargs, str(result.status)) == ([2], {"b": 3}, "READY")
    with pytest.raises(ValueError, match="not finished"):
        _ = result.return_value
    jobs.run_until_idle()
    found = kit.add.get_result(result.id)
    assert (found.args, found.kwargs, found.return_value) == ([2], {"b": 3}, 5)
    assert found.is_finished
    assert found.attempts == 1
    assert found.enqueued_at <= found.started_at <= found.finished_at
    assert found.task == kit.add


def test_o1_a_task_that_fails_is_tried_again(jobs: Windlass) -> None:
    result = kit.fail.enqueue("no")
    assert jobs.run_until_idle().retried == 1
    result.refresh()
    assert (str(result.status), result.attempts, result.is_finished) == ("READY", 1, False)
    (error,) = result.errors
    assert error.exception_class is ValueError
    assert "ValueError: no" in error.traceback


def test_a_job_that_runs_is_seen_to_run(jobs: Windlass) -> None:
    result = kit.look.enqueue()
    jobs.run_until_idle()
    result.refresh()
    assert result.return_value == ["RUNNING", False, 1]


def test_the_last_attempt_has_a_time_of_its_own(jobs: Windlass) -> None:
    """It stood at the first one's."""
    result = kit.fail.using(queue_name="default").enqueue("no")
    jobs.run_until_idle()
    result.refresh()
    first = result.last_attempted_at
    assert result.enqueued_at <= first
    jobs.jobs().retry()
    jobs.run_until_idle()
    result.refresh()
    assert first < result.last_attempted_at <= timezone.now()
    assert result.started_at <= first


def test_a_time_without_a_zone_is_one_of_the_projects_zone(jobs: Windlass) -> None:
    later = timezone.now() + datetime.timedelta(days=1)
    with override_settings(USE_TZ=False, TIME_ZONE="Asia/Tokyo"):
        naive = timezone.make_naive(later, ZoneInfo("Asia/Tokyo"))
        result = kit.add.using(run_after=naive).enqueue(1)
    job = jobs.job(result.id).record()
    assert job.run_at is not None
    assert abs(job.run_at - later) < datetime.timedelta(seconds=0.01)


def test_a_task_may_give_up(jobs: Windlass) -> None:
    result = kit.give_up.enqueue()
    assert jobs.run_until_idle().dead == 1
    result.refresh()
    assert (str(result.status), len(result.errors)) == ("FAILED", 1)
    with pytest.raises(ValueError, match="failed"):
        _ = result.return_value


def test_a_task_may_take_its_context(jobs: Windlass) -> None:
    result = kit.attempt.enqueue("again")
    jobs.run_until_idle()
    result.refresh()
    assert result.return_value == ["again", 1, result.id, "RUNNING"]


async def test_async_tasks_and_callers(on_sqlite: Windlass) -> None:
    result = await kit.aadd.aenqueue(2, b=3)
    assert (await on_sqlite.arun_until_idle()).succeeded == 1
    found = await kit.aadd.aget_result(result.id)
    assert found.return_value == 5


def test_a_job_leaves_no_connection_open(on_postgres: Windlass) -> None:
    kit.seen.clear()
    result = kit.query.enqueue()
    on_postgres.run_until_idle()
    result.refresh()
    assert result.return_value == 42
    (used,) = kit.seen
    assert used is not connections["default"].connection
    assert used.closed


def test_a_name_that_windlass_does_not_take_is_brought_under_its_rule(jobs: Windlass) -> None:
    result = kit.CamelCase.enqueue()
    assert jobs.job(result.id).record().task == "tests.contrib.django.kit.camelcase"
    jobs.run_until_idle()
    assert kit.CamelCase.get_result(result.id).return_value == "done"


# -- options ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("number", "priority"),
    [(100, "URGENT"), (50, "URGENT"), (49, "HIGH"), (1, "HIGH"), (0, "NORMAL"), (-1, "LOW"), (-100, "LOW")],
)
def test_priorities(on_sqlite: Windlass, number: int, priority: str) -> None:
    result = kit.add.using(priority=number).enqueue(1)
    assert on_sqlite.job(result.id).record().priority == Priority[priority]
    assert kit.add.get_result(result.id).task.priority == number


def test_a_job_may_go_to_another_queue_and_wait(jobs: Windlass) -> None:
    later = timezone.now() + datetime.timedelta(hours=1)
    result = kit.add.using(queue_name="mail", run_after=later).enqueue(1)
    job = jobs.job(result.id).record()
    assert (job.queue, job.state) == ("mail", State.SCHEDULED)
    assert job.run_at is not None
    assert abs(job.run_at - later) < datetime.timedelta(seconds=0.01)
    found = kit.add.get_result(result.id)
    assert (found.task.queue_name, str(found.status)) == ("mail", "READY")
    assert abs(found.task.run_after - later) < datetime.timedelta(seconds=1)


def test_attempts_and_timeout(on_sqlite: Windlass) -> None:
    by_task, by_backend = kit.fail.enqueue("no"), kit.add.enqueue(1)
    assert on_sqlite.job(by_task.id).record().options.max_attempts == 2
    assert on_sqlite.job(by_backend.id).record().options.max_attempts == 3
    assert on_sqlite.tasks["tests.contrib.django.kit.add"].timeout == 60.0


def test_e4_arguments_and_values_may_be_encrypted(on_sqlite: Windlass) -> None:
    codec = Encrypted({"2026-01": bytes(range(32))})
    options = {"database": f"{on_sqlite.settings.database_url}.sealed", "codec": codec}
    backend = {"BACKEND": "windlass.contrib.django.WindlassBackend", "OPTIONS": options}
    with override_settings(TASKS={"default": {}, "sealed": backend}):
        result = kit.add.using(backend="sealed").enqueue(20, b=1234567890)
        app = get_app("sealed")
        app.run_until_idle()
        assert "1234567890" not in stored(app.job(result.id)).payload
        found = task_backends["sealed"].get_result(result.id)
        assert (found.args, found.kwargs, found.return_value) == ([20], {"b": 1234567890}, 1234567910)
        app.close()


# -- what is refused --------------------------------------------------------------------------------------


def test_e3_wrong_arguments_are_refused_before_anything_is_written(jobs: Windlass) -> None:
    with pytest.raises(TypeError, match="unexpected keyword"):
        kit.add.enqueue(1, c=2)
    with pytest.raises(TypeError):
        kit.add.enqueue(object())
    with pytest.raises(TypeError, match="missing"):
        kit.attempt.enqueue()
    assert count(jobs) == 0


def test_what_django_refuses_is_refused(on_sqlite: Windlass) -> None:
    with pytest.raises(InvalidTask, match="not valid for backend"):
        kit.add.using(queue_name="imports")
    with pytest.raises(InvalidTask, match="aware"):
        kit.add.using(run_after=datetime.datetime(2030, 1, 1))  # noqa: DTZ001 - that is the point
    with pytest.raises(InvalidTask, match="module level"):
        task(lambda: None)


def test_a_result_that_is_none_is_not_found(on_sqlite: Windlass) -> None:
    for id in ("", "x", "12345", str(2**70)):
        with pytest.raises(TaskResultDoesNotExist):
            task_backends["default"].get_result(id)
    job = on_sqlite.enqueue("shop.unknown", 1)
    with pytest.raises(TaskResultDoesNotExist, match=r"shop\.unknown"):
        task_backends["default"].get_result(str(job))


# -- signals ----------------------------------------------------------------------------------------------


def test_signals_are_sent(on_sqlite: Windlass) -> None:
    seen: list[tuple[str, str, str]] = []

    def hear(name: str) -> Any:
        def receive(sender: type, task_result: Any, **_: Any) -> None:
            seen.append((name, task_result.task.name, str(task_result.status)))

        getattr(signals, f"task_{name}").connect(receive)
        return receive

    hearing = {name: hear(name) for name in ("enqueued", "started", "finished")}
    try:
        kit.add.enqueue(1)
        on_sqlite.run_until_idle()
        kit.fail.enqueue("no")  # will be tried again: started, not finished
        on_sqlite.run_until_idle()
        kit.give_up.enqueue()
        on_sqlite.run_until_idle()
    finally:
        for name, receive in hearing.items():
            getattr(signals, f"task_{name}").disconnect(receive)
    assert seen == [
        ("enqueued", "add", "READY"),
        ("started", "add", "RUNNING"),
        ("finished", "add", "SUCCESSFUL"),
        ("enqueued", "fail", "READY"),
        ("started", "fail", "RUNNING"),
        ("enqueued", "give_up", "READY"),
        ("started", "give_up", "RUNNING"),
        ("finished", "give_up", "FAILED"),
    ]
