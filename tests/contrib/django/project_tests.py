"""Tests as a Django project has them. `test_project_tests.py` runs this file with Django's own runner."""

import sys
from typing import Any

if __name__ == "__main__":
    import os

    os.environ["DJANGO_SETTINGS_MODULE"] = "examples.django_shop.settings"
    from django.core.management import execute_from_command_line

    execute_from_command_line(["manage.py", "test", "tests.contrib.django.project_tests", *sys.argv[1:]])
    sys.exit(0)

from django.db import connection, transaction
from django.test import TestCase, TransactionTestCase

from examples.django_shop.models import Order
from examples.django_shop.tasks import count_orders, send_receipt
from tests.contrib.django import kit
from windlass.contrib.django import get_app
from windlass.contrib.django.api import signals
from windlass.testing import assert_enqueued


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
        from windlass.signals import Dead

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
