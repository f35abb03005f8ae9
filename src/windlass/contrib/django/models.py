"""Names for the admin and its permissions: jobs, queues and dead jobs as models without a table.

Jobs live in a store of Windlass's, which may be another database, so nothing here can be queried: managers
find nothing, and what walks over all models (`dumpdata`, say) passes by. `view_job`, `change_job` and so on
are permissions like any others.
"""

from __future__ import annotations

from typing import Any

from django.db import models


class Nothing(models.Manager):
    """Finds nothing, without asking a database."""

    def get_queryset(self) -> Any:
        """An empty queryset."""
        return super().get_queryset().none()


class Named(models.Model):
    """The base of these models. `change` is for those who retry and cancel; nothing is added or deleted."""

    objects: Nothing = Nothing()

    class Meta:
        """No table, and the permissions there are."""

        abstract = True
        managed = False
        default_permissions = ("view", "change")
        base_manager_name = "objects"


class Job(Named):
    """A job in any state."""

    class Meta(Named.Meta):
        """Its names."""

        verbose_name = "job"


class Dead(Named):
    """A job that used up its attempts."""

    class Meta(Named.Meta):
        """Its names."""

        verbose_name = "dead job"


class Queue(Named):
    """A queue."""

    class Meta(Named.Meta):
        """Its names."""

        verbose_name = "queue"
