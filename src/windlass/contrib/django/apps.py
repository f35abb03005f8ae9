"""The app's entry in INSTALLED_APPS: label `windlass`, so that admin pages and permissions are named after
it."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.db.models.signals import post_migrate


class WindlassConfig(AppConfig):
    """`windlass.contrib.django` as Django knows it."""

    name = "windlass.contrib.django"
    label = "windlass"
    verbose_name = "Windlass"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        """Watch for databases that a test runner makes, and for those that it empties."""
        from windlass.contrib.django.place import note_real_databases

        note_real_databases()
        post_migrate.connect(follow_test_database, sender=self)


def follow_test_database(*, using: str, plan: Any = None, **_: Any) -> None:
    """Give a test database Windlass's schema along with the project's tables, and empty its store when a
    TransactionTestCase has `flush` empty these: only `migrate` has a plan. A real database gets the schema
    from `manage.py windlass_migrate`, by a role that may, and keeps its jobs."""
    from windlass.contrib.django.place import in_tests

    if not in_tests():
        return
    from windlass.contrib.django.app import app_and_place, start_over, windlass_backends

    for alias in windlass_backends():
        app, place = app_and_place(alias)
        if using not in (place.joins, place.awaits):
            continue
        if plan is None:
            start_over(alias)
        elif place.joins == using:
            app.migrate()
        app.close()  # a database that somebody is connected to cannot be copied for parallel tests
