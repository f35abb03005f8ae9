"""The shop's own tests, for Django's runner: `manage.py test`."""

from typing import Any
from unittest import mock

from django.contrib.auth.models import User
from django.test import TestCase, TransactionTestCase

from examples.django_shop import tasks
from examples.django_shop.models import Order
from windlass.contrib.django import get_app
from windlass.testing import assert_enqueued

SEND: Any = tasks.send_receipt


class Receipts(TestCase):
    """Jobs in memory, which see the rows of the test: nothing waits for a worker or a commit."""

    def setUp(self) -> None:
        self.jobs = self.enterContext(get_app().testing())
        self.deliver = self.enterContext(mock.patch.object(tasks, "deliver"))

    def order(self) -> dict[str, Any]:
        made = self.client.post("/orders/", {"email": "ada@example.org", "cents": "1999"})
        assert made.status_code == 201
        answer: dict[str, Any] = made.json()
        return answer

    def receipt(self, order: int) -> str:
        return str(self.client.get(f"/orders/{order}/").json()["receipt"])

    def test_an_order_is_answered_first_and_its_receipt_follows(self) -> None:
        order = self.order()["order"]
        assert_enqueued(get_app(), SEND.module_path, order)
        assert self.receipt(order) == "waits"
        assert len(self.jobs.drain().succeeded) == 1
        assert self.receipt(order) == "sent"
        self.deliver.assert_called_once()

    def test_a_mail_server_that_is_down_is_asked_again(self) -> None:
        self.deliver.side_effect = [ConnectionRefusedError("no mail today"), None]
        made = self.order()
        with self.assertLogs("windlass.worker", "WARNING"):
            self.jobs.drain(advance=True)
        assert self.receipt(made["order"]) == "sent"
        assert get_app().job(made["job"]).record().attempt == 2

    def test_a_job_that_runs_twice_sends_one_receipt(self) -> None:
        order = self.order()["order"]
        SEND.enqueue(order)
        assert len(self.jobs.drain().succeeded) == 2
        self.deliver.assert_called_once()

    def test_orders_are_counted_by_async_code(self) -> None:
        self.order()
        result: Any = tasks.count_orders.enqueue()
        self.jobs.drain()
        result.refresh()
        assert result.return_value == 1


class Checkout(TransactionTestCase):
    """Jobs in the test's store, and real transactions: a job is there once its order is."""

    def post(self, cents: int) -> Any:
        return self.client.post("/orders/", {"email": "ada@example.org", "cents": str(cents)})

    def test_a_declined_order_leaves_neither_order_nor_job(self) -> None:
        assert self.post(0).status_code == 402
        assert (Order.objects.count(), get_app().jobs().count().jobs) == (0, 0)

    def test_an_order_commits_with_its_job(self) -> None:
        assert self.post(1999).status_code == 201
        assert get_app().run_until_idle().succeeded == 1
        assert Order.objects.get().receipt_at is not None

    def test_staff_find_the_job_in_the_admin(self) -> None:
        self.client.force_login(User.objects.create_superuser("ada"))
        self.post(1999)
        page = self.client.get("/admin/windlass/job/?queue=mail")
        self.assertContains(page, "examples.django_shop.tasks.send_receipt")

    def tearDown(self) -> None:
        get_app().close()
