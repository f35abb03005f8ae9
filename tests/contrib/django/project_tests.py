"""Tests as a Django project has them. `test_project_tests.py` runs this file with Django's own runner."""

import sys
from typing import Any

if __name__ == "__main__":
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_shop.settings"
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "test", "tests.contrib.django.project_tests", *sys.argv[1:]])
    sys.exit(0)

from threading import Thread

import pytest
from asgiref.sync import async_to_sync, sync_to_async
from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from examples.django_shop.models import Order
from examples.django_shop.tasks import count_orders, send_receipt
from tests.contrib.django import kit
from windlass import Job, result_of
from windlass.contrib.django import get_app
from windlass.contrib.django.api import signals
from windlass.errors import AlreadyEnqueued, InvalidArguments, InvalidOption, JobNotFound
from windlass.testing import assert_enqueued


@get_app().task(name="shop.note")
def note(text: str) -> str:
    """A task of the app's own, beside Django's."""
    return text


class InMemory(TestCase):
    """Jobs in memory, rows in the transaction of the test."""

    def setUp(self) -> None:
        self.jobs = self.enterContext(get_app().testing())

    def test_a_plain_task_sees_the_rows_of_the_test(self) -> None:
        order = Order.objects.create(email="ada@example.org", cents=1)
        result = send_receipt.enqueue(order.id)
        self.jobs.drain()
        result.refresh()
        assert result.return_value == "ada@example.org"
        order.refresh_from_db()
        assert order.receipt_at is not None

    def test_an_async_task_sees_the_rows_of_the_test(self) -> None:
        Order.objects.create(email="ada@example.org", cents=1)
        result = count_orders.enqueue()
        self.jobs.drain()
        result.refresh()
        assert result.return_value == 1

    async def test_so_does_a_plain_task_in_an_async_test(self) -> None:
        order = await Order.objects.acreate(email="ada@example.org", cents=1)
        result = await send_receipt.aenqueue(order.id)
        await self.jobs.adrain()
        await result.arefresh()
        assert result.return_value == "ada@example.org"

    def test_a_job_inside_a_block_is_there_at_once(self) -> None:
        with transaction.atomic():
            result = kit.add.enqueue(1)
            assert assert_enqueued(get_app(), kit.add.module_path, 1).id == int(result.id)


class Inline(TestCase):
    """Jobs that run where they are enqueued."""

    def test_on_the_connection_of_the_test(self) -> None:
        order = Order.objects.create(email="ada@example.org", cents=1)
        with get_app().testing(inline=True):
            result = send_receipt.enqueue(order.id)
        order.refresh_from_db()
        assert order.receipt_at is not None
        assert int(result.id) > 0


class Signals(TestCase):
    """What a receiver hears."""

    def setUp(self) -> None:
        self.jobs = self.enterContext(get_app().testing())
        self.heard: list[Any] = []
        signals.task_finished.connect(self.hear)
        self.addCleanup(signals.task_finished.disconnect, self.hear)

    def hear(self, task_result: Any, **_: Any) -> None:
        with connection.cursor() as cursor:  # on the connection of the test
            cursor.execute("SELECT 1")
        self.heard.append((str(task_result.status), [error.exception_class for error in task_result.errors]))

    def finished(self, task: Any) -> list[Any]:
        result = task.enqueue()
        with self.assertLogs("windlass.worker"):
            self.jobs.drain(advance=True, raises=False)
        result.refresh()
        assert str(result.status) == self.heard[-1][0]
        return self.heard

    def test_a_process_that_wants_to_exit(self) -> None:
        assert self.finished(kit.leave) == [("FAILED", [SystemExit])]

    def test_a_value_that_cannot_be_kept(self) -> None:
        from windlass.endings import Dead

        assert self.finished(kit.return_function) == [("FAILED", [Dead])]


class InTheDatabase(TransactionTestCase):
    """Jobs in the test database itself, which has the schema."""

    def test_a_job_commits_with_its_row(self) -> None:
        with transaction.atomic():
            order = Order.objects.create(email="ada@example.org", cents=1)
            result = send_receipt.enqueue(order.id)
        assert connection.vendor == "sqlite" or "test_" in connection.settings_dict["NAME"]
        get_app().run_until_idle()
        result.refresh()
        assert result.return_value == "ada@example.org"

    def tearDown(self) -> None:
        get_app().close()


class OwnTasks(TransactionTestCase):
    """Jobs of the app's own tasks obey `atomic()`, too."""

    def waiting(self) -> int:
        return get_app().jobs(task="shop.note").count().jobs

    def test_a_job_of_a_block_that_fails_never_existed(self) -> None:
        try:
            with transaction.atomic():
                note.enqueue("never")
                note.enqueue_many([("never",)])
                raise RuntimeError("declined")
        except RuntimeError:
            assert self.waiting() == 0

    def test_a_job_of_a_savepoint_that_fails_never_existed(self) -> None:
        with transaction.atomic():
            note.enqueue("stays")
            try:
                with transaction.atomic():
                    note.enqueue("never")
                    raise RuntimeError("declined")
            except RuntimeError:
                pass
        assert self.waiting() == 1

    def test_a_job_is_there_with_its_commit(self) -> None:
        def of_its_own(found: list[int]) -> None:
            found.append(self.waiting())

        seen: list[int] = []
        with transaction.atomic():
            job = note.enqueue("hello")
            self.check_handle(job)
            self.apart(of_its_own, seen)
        assert (seen, self.waiting()) == ([0], 1)

    def test_a_job_that_is_refused_after_the_commit_takes_no_other_along(self) -> None:
        def three() -> None:
            once = note.using(unique="v", on_conflict="reject")
            with transaction.atomic():
                once.enqueue("first")
                once.enqueue("second")
                note.enqueue("other")

        if self.joins():
            with pytest.raises(AlreadyEnqueued):
                three()
            assert self.waiting() == 0
        else:
            with self.assertLogs("django.db.backends.base", "ERROR") as logged:
                three()
            assert "enqueue_jobs" in logged.output[0]
            assert self.waiting() == 2

    def joins(self) -> bool:
        return get_app().settings.database_url.startswith("postgresql")

    def check_handle(self, job: Job[str]) -> None:
        assert (job.id > 0, job.receipt) == ((True, "enqueued") if self.joins() else (False, "on_commit"))

    def apart(self, look: Any, seen: list[int]) -> None:
        """Look from another thread, which is in no transaction."""
        thread = Thread(target=look, args=(seen,))
        thread.start()
        thread.join()

    async def test_so_is_one_of_async_code(self) -> None:
        job = await note.aenqueue("hello")
        assert job.id > 0
        assert (await get_app().jobs(task="shop.note").acount()).jobs == 1

    async def test_async_code_joins_the_block_that_plain_code_began(self) -> None:
        def declined() -> None:
            with transaction.atomic():
                async_to_sync(note.aenqueue)("never")
                raise RuntimeError("declined")

        try:
            await sync_to_async(declined)()
        except RuntimeError:
            assert (await get_app().jobs(task="shop.note").acount()).jobs == 0

    def test_a_group_is_written_at_once(self) -> None:
        with transaction.atomic(), get_app().open_group("notes") as group:
            first = group.enqueue(note, "hello")
            assert (group.id > 0, first.id > 0, sum(group.counts().values())) == (True, True, 1)
        assert get_app().run_until_idle().succeeded == 2
        assert group.result() == {"succeeded": 1}

    def test_what_waits_for_a_commit_cannot_be_come_after(self) -> None:
        with transaction.atomic():
            first = note.enqueue("hello")
            if first.receipt != "on_commit":
                note.using(after=[first]).enqueue("after")
            else:
                with pytest.raises(InvalidOption, match=r"waits for a commit.*on_commit"):
                    note.using(after=[first]).enqueue("after")
                with pytest.raises(InvalidArguments, match=r"waits for a commit.*on_commit"):
                    note.enqueue(result_of(first))

    def test_what_waits_for_a_commit_cannot_be_asked_for_yet(self) -> None:
        with transaction.atomic():
            job = note.enqueue("hello")
            asks = (
                job.status, job.record, job.result, job.cancel, job.change, job.replay, job.delete,
                lambda: list(job.events()), lambda: job.signal("go"), async_to_sync(job.astatus),
            )  # fmt: skip
            for ask in asks if job.receipt == "on_commit" else ():
                with pytest.raises(JobNotFound, match=r"waits for a commit.*on_commit"):
                    ask()

    def tearDown(self) -> None:
        get_app().close()


class Leaving(TransactionTestCase):
    """Jobs, their keys and what was set go with the rows of their test."""

    def found_none_and_leave_one(self) -> None:
        assert get_app().jobs().count().jobs == 0
        assert not any(queue.paused for queue in get_app().queues())
        kit.add.enqueue(1)
        assert note.using(idempotency_key="once", delay="1h").enqueue("later").receipt == "scheduled"
        assert get_app().jobs().count().jobs == 2
        get_app().run_until_idle()
        get_app().queue("default").pause()

    def test_one(self) -> None:
        self.found_none_and_leave_one()

    def test_another(self) -> None:
        self.found_none_and_leave_one()
