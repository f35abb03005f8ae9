"""Where orders are made and looked up."""

from typing import Any

from django.db import transaction
from django.http import JsonResponse
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_POST

from examples.django_shop.models import Order
from examples.django_shop.tasks import send_receipt


class Declined(Exception):
    """The payment was declined."""


@csrf_exempt
@require_POST
def make_order(request: Any) -> Any:
    """Order and job in one transaction: on PostgreSQL both are written on its connection; on SQLite the job
    follows the commit."""
    try:
        with transaction.atomic():
            order = Order.objects.create(email=request.POST["email"], cents=int(request.POST["cents"]))
            receipt = send_receipt.enqueue(order.id)
            charge(order)  # what it raises takes back the order and its job
    except Declined as error:
        return JsonResponse({"error": str(error)}, status=402)
    return JsonResponse({"order": order.id, "job": receipt.id}, status=201)


@require_GET
def show_order(request: Any, order_id: int) -> Any:
    """How an order stands."""
    order = Order.objects.get(id=order_id)
    return JsonResponse({"order": order.id, "receipt": "sent" if order.receipt_at else "waits"})


def charge(order: Any) -> None:
    """Stands for your payment provider."""
    if order.cents <= 0:
        raise Declined("nobody can be charged nothing")
