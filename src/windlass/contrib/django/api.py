"""The tasks framework that this Django has: its own from 6.0 on, the package django-tasks before.

They are the same but for where they live and two names. Everything else of ours takes the names from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

from django.core.exceptions import ImproperlyConfigured


def _found() -> str:
    for name in ("django.tasks", "django_tasks"):
        try:
            import_module(name)
        except ModuleNotFoundError as error:
            if error.name != name:
                raise
        else:
            return name
    raise ImproperlyConfigured(
        "this Django has no tasks framework: use Django 6 or newer, or pip install 'django-tasks>=0.12'"
    )


FRAMEWORK: Final = _found()
"""Where it lives: django.tasks or django_tasks."""
_base: Any = import_module(f"{FRAMEWORK}.base")
_backends: Any = import_module(f"{FRAMEWORK}.backends.base")
_exceptions: Any = import_module(f"{FRAMEWORK}.exceptions")
_root: Any = import_module(FRAMEWORK)

signals: Any = import_module(f"{FRAMEWORK}.signals")
task_backends: Any = _root.task_backends
BaseTaskBackend: Any = _backends.BaseTaskBackend
Task: Any = _base.Task
TaskContext: Any = _base.TaskContext
TaskError: Any = _base.TaskError
TaskResult: Any = _base.TaskResult
TaskResultStatus: Any = _base.TaskResultStatus
InvalidTask: Any = getattr(_exceptions, "InvalidTask", None) or _exceptions.InvalidTaskError
TaskResultDoesNotExist: Any = _exceptions.TaskResultDoesNotExist
