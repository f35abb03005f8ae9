"""The shop's addresses. Mission Control is not here: `asgi.py` serves it."""

from django.contrib import admin
from django.urls import path

from examples.django_shop.views import make_order, show_order

urlpatterns = [
    path("admin/", admin.site.urls),
    path("orders/", make_order),
    path("orders/<int:order_id>/", show_order),
]
