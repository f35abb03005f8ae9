"""`manage.py windlass …`: every verb of the command `windlass`, on the database of a backend of TASKS."""

from __future__ import annotations

from windlass.contrib.django.management.passing import Passing


class Command(Passing):
    """`manage.py windlass queues`, `jobs --state dead`, `top`, `doctor`, …"""

    help = "Run a command of Windlass on the project's jobs: queues, jobs, job, dead, top, doctor, web, …"
