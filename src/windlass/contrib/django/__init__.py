"""Windlass in a Django project: a backend for `django.tasks`, management commands, and pages in the admin.

    INSTALLED_APPS = [..., "windlass.contrib.django"]
    TASKS = {"default": {"BACKEND": "windlass.contrib.django.WindlassBackend", "QUEUES": ["default", "mail"]}}

    task ─▶ backend ─▶ app (a Windlass app for each backend) ─▶ the caller's transaction, or its own store
    manage.py windlass_worker ─▶ running (around each run) ─▶ your function

`place` decides where jobs live and what they wait for, `results` turns a job into a TaskResult, `mission`
serves Mission Control beside Django. Django 6 brings the framework; before it, the package django-tasks does.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from windlass.contrib.django.app import get_app
    from windlass.contrib.django.backend import WindlassBackend

__all__ = ["WindlassBackend", "get_app"]


def __getattr__(name: str) -> Any:
    """Django imports this package before its settings and apps are ready, so the rest waits until it is asked
    for."""
    module = {"WindlassBackend": "backend", "get_app": "app"}.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{module}"), name)
