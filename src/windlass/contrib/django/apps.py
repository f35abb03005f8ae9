"""The app's entry in INSTALLED_APPS: label `windlass`, so that admin pages and permissions are named after
it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core import mail
from django.db.models.signals import post_migrate


class WindlassConfig(AppConfig):
    """`windlass.contrib.django` as Django knows it."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Watch for databases that a test runner makes."""
        post_migrate.connect(migrate_test_database, sender=self)


def migrate_test_database(*, using: str, **_: Any) -> None:
    """Give a test database Windlass's schema along with the project's tables. A real one gets it from
    `manage.py windlass_migrate`, by a role that may."""
    if not hasattr(mail, "outbox"):  # it is there in test environments, and only there
        return
    from windlass.contrib.django.app import app_and_place, windlass_backends

    for alias in windlass_backends():
        app, place = app_and_place(alias)
        if place.joins == using:
            app.migrate()
            app.close()  # a database that somebody is connected to cannot be copied for parallel tests
