"""`manage.py windlass_migrate`: brings the schema of the store to this version of Windlass."""

from __future__ import annotations

from windlass.app import Windlass
from windlass.contrib.django.management.passing import Passing


class Command(Passing):
    """`windlass migrate` on the database of a backend of TASKS."""

    help = "Create or update Windlass's schema, beside the tables of your models. SQLite needs none."

    def words(self, app: Windlass, given: list[str]) -> list[str]:
        """The verb, and what was given."""
        return ["migrate", *given]
