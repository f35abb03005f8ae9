"""The shop's one table."""

from django.db import models


class Order(models.Model):
    """What somebody ordered, and when its receipt was sent."""

    email = models.EmailField()
    cents = models.PositiveIntegerField()
    receipt_at = models.DateTimeField(null=True)
