"""examples/django_shop as its customers see it."""

import pytest
from django.test import Client

from windlass import Windlass


def test_e1_an_order_gets_its_receipt_and_a_declined_one_leaves_nothing(
    jobs: Windlass, capsys: pytest.CaptureFixture[str]
) -> None:
    client = Client()
    made = client.post("/orders/", {"email": "ada@example.org", "cents": "1999"})
    assert made.status_code == 201
    assert client.post("/orders/", {"email": "eve@example.org", "cents": "0"}).status_code == 402
    order = f"/orders/{made.json()['order']}/"
    assert client.get(order).json()["receipt"] == "waits"
    assert jobs.run_until_idle().succeeded == 1
    assert client.get(order).json()["receipt"] == "sent"
    assert capsys.readouterr().out.startswith("To ada@example.org: your order ")
    assert (jobs.job(made.json()["job"]).record().attempt, jobs.jobs().count().jobs) == (1, 1)


def test_async_tasks_use_the_async_orm(jobs: Windlass) -> None:
    from examples.django_shop.models import Order
    from examples.django_shop.tasks import count_orders

    Order.objects.create(email="ada@example.org", cents=1999)
    result = count_orders.enqueue()
    assert jobs.run_until_idle().succeeded == 1
    result.refresh()
    assert result.return_value == 1
