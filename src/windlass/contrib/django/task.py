"""A task of Django's with what Windlass can do besides, and the words that differ: names and priorities.

From Django 6.1 on, and with django-tasks, `@task(max_attempts=3, timeout="30s")` takes these two as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

from windlass.contrib.django.api import Task
from windlass.core.durations import Duration
from windlass.core.names import derive_name
from windlass.core.states import Priority

URGENT_FROM: Final = 50
"""Django has 201 priorities and Windlass four: 50 and more are urgent, others above 0 high, those below 0
low."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WindlassTask(Task):
    """A task of Django's, with how often it is tried and how long one attempt may take. What is None is as
    the backend's OPTIONS say, else as Windlass has it."""

    max_attempts: int | None = None
    timeout: Duration | None = None


def job_name(task: Any) -> str:
    """Return the name of the task in Windlass: its path, brought under the rule for names."""
    return derive_name(task.func.__module__, task.func.__qualname__)


def job_priority(priority: int) -> Priority:
    """Which of the four priorities a number of Django's means."""
    if priority >= URGENT_FROM:
        return Priority.URGENT
    if priority > 0:
        return Priority.HIGH
    return Priority.LOW if priority < 0 else Priority.NORMAL
