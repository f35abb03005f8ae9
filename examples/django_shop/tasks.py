"""The shop's jobs. `manage.py windlass_worker` finds them by the name of this module."""

from typing import Any

from django.utils import timezone

from examples.django_shop.models import Order

try:
    from django.tasks import task
except ImportError:  # before Django 6
    from django_tasks import task


@task(queue_name="mail", priority=10)
def send_receipt(order_id: int) -> str:
    """Mail the receipt of an order. A worker may die after the mail and before it is noted, and the job runs
    again: so a receipt that is noted is not sent a second time."""
    order = Order.objects.get(id=order_id)
    if order.receipt_at is None:
        deliver(order)
        Order.objects.filter(id=order_id).update(receipt_at=timezone.now())
    return str(order.email)


@task
async def count_orders() -> int:
    """An async task runs on the worker's loop, and uses the async ORM."""
    found: int = await Order.objects.acount()
    return found


def deliver(order: Any) -> None:
    """Stands for your mail provider; pass it the id of the order, so that it can drop what comes twice."""
    print(f"To {order.email}: your order {order.id} of {order.cents / 100:.2f} € is on its way.")
