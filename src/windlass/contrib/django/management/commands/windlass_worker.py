"""`manage.py windlass_worker`: runs the tasks of the project in worker processes."""

from __future__ import annotations

import os
from collections.abc import Sequence

from windlass.app import Windlass
from windlass.contrib.django.api import task_backends
from windlass.contrib.django.app import ADDRESS, BACKEND, worker_app
from windlass.contrib.django.management.passing import Passing


class Command(Passing):
    """`windlass worker` with the tasks of every installed app, and the QUEUES of the backend unless -q names
    others."""

    help = "Run jobs until told to stop: -q mail=8 -q default=2 -p 2; flags as for `windlass worker`."

    def words(self, app: Windlass, given: list[str]) -> list[str]:
        """The verb, the app to load, the queues, and what was given."""
        if app.settings.queues or any(word.startswith(("-q", "--queue")) for word in given):
            return ["worker", ADDRESS, *given]
        return ["worker", ADDRESS, *_flags(queues_of(app)), *given]


def queues_of(app: Windlass) -> list[str]:
    """The queues of the backend, or where it takes any, those that tasks go to."""
    named = task_backends[os.environ[BACKEND]].queues
    return sorted(named or {task.queue for task in worker_app().tasks.values()})


def _flags(queues: Sequence[str]) -> list[str]:
    return [word for queue in queues for word in ("-q", queue)]
