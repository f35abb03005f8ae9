"""The Windlass app behind each backend of TASKS: made when first needed, one for the process.

Django makes a backend for each thread that asks, so what must be there once lives here: the apps, and the
tasks of each backend, which become known when their modules are imported. An app is what the rest of Windlass
works with; users may take it to declare chunked jobs, schedules or budgets beside their Django tasks:

    from windlass.contrib.django import get_app

    app = get_app()
"""

from __future__ import annotations

import functools
import os
import threading
from typing import Any, Final

import msgspec
from django.core.exceptions import ImproperlyConfigured
from django.core.signals import setting_changed
from django.db import connections

from windlass.app import Windlass
from windlass.contrib.django.api import InvalidTask, task_backends
from windlass.contrib.django.place import OWN, Place, in_tests, place_of
from windlass.contrib.django.producing import DjangoProducer
from windlass.contrib.django.running import failure_hook, runner
from windlass.contrib.django.task import WindlassTask, job_name
from windlass.contrib.django.threads import DjangoThread
from windlass.core.names import check_name
from windlass.endings import Retry
from windlass.errors import WindlassError
from windlass.running.producer import Producer
from windlass.store.factory import is_in_memory
from windlass.tasks.task import TaskOptions

BACKEND: Final = "DJANGO_WINDLASS_BACKEND"
"""The variable that tells a worker's processes which backend they serve."""
ADDRESS: Final = "windlass.contrib.django.app:worker_app()"
"""The address that `windlass worker` is given to load."""


class DjangoApp(Windlass):
    """The app of a backend. Whoever took it before tests began, or ended, is led where TASKS says now."""

    alias = ""
    """Its backend."""

    @property
    def _producer(self) -> Producer:
        place = _places.get(self.alias)
        if place is None or place.of_tests is not in_tests():
            app_and_place(self.alias)
        return super()._producer


_making: Final = threading.RLock()
_apps: Final[dict[str, DjangoApp]] = {}
_places: Final[dict[str, Place]] = {}
_tasks: Final[dict[str, dict[str, Any]]] = {}


def get_app(backend: str | None = None) -> Windlass:
    """The Windlass app of a backend of TASKS; without a name, of the first that is Windlass's. Raises
    ImproperlyConfigured where it is not."""
    return app_and_place(backend or first_backend())[0]


def app_and_place(alias: str) -> tuple[Windlass, Place]:
    """The app of a backend, and where its jobs live. Looked up each time: Django's test runner gives a
    database another name where it stands, and nobody may write to the real one from then on."""
    place = place_of(windlass_backend(alias).options)
    with _making:
        if _places.get(alias) != place:
            _settle(alias, place)
            _places[alias] = place
        return _apps[alias], place


def windlass_backends() -> list[str]:
    """The aliases in TASKS whose backend is Windlass's, the default first."""
    aliases = [alias for alias in task_backends if _is_windlass(task_backends[alias])]
    return sorted(aliases, key=lambda alias: alias != "default")


def first_backend() -> str:
    """The backend that is meant where none is named."""
    for alias in windlass_backends():
        return alias
    raise ImproperlyConfigured(
        'no backend in TASKS is Windlass\'s; set TASKS = {"default": {"BACKEND": '
        '"windlass.contrib.django.WindlassBackend"}}'
    )


def register(alias: str, task: Any) -> str:
    """Make a task known to the app of its backend, and return the name of its jobs. Raises InvalidTask where
    Windlass cannot have it."""
    name = job_name(task)
    with _making:
        known = _tasks.setdefault(alias, {})
        there = known.get(name)
        if there is not None and there.module_path != task.module_path:
            raise InvalidTask(
                f"{task.module_path} and {there.module_path} would both be task {name}; rename one of them"
            )
        if there is None:
            try:
                check_name("queue", task.queue_name)
            except WindlassError as error:
                raise InvalidTask(str(error)) from error
            known[name] = task
            if alias in _apps:
                _add(_apps[alias], alias, task)
    return name


def known_task(alias: str, name: str) -> Any:
    """The task whose jobs have this name, if its module was imported; else None."""
    return _tasks.get(alias, {}).get(name)


def worker_app() -> Windlass:
    """The app of a worker, with the tasks of every installed app: their modules called `tasks` are
    imported."""
    import django
    from django.apps import apps
    from django.utils.module_loading import autodiscover_modules

    if not apps.ready:
        django.setup()
    app = get_app(os.environ.get(BACKEND))
    autodiscover_modules("tasks")
    return app


def reread(app: Windlass) -> None:
    """Have an app read its settings again, and open its store anew: variables or Django's settings have
    changed. It stays the same app, since users' code may hold on to it."""
    app.close()
    app._built = app._given = None
    for cached in ("settings", "_routes"):
        vars(app).pop(cached, None)


def start_over(alias: str) -> None:
    """Empty the store of a test, if anybody has used it: of its jobs and of what outlives these, such as
    idempotency keys and paused queues."""
    app, place = app_and_place(alias)
    if app._built is None:
        return
    schema = app.settings.schema
    if place.joins is not None and not _is_shared(place.joins, schema):
        app.close()
        with connections[place.joins].cursor() as cursor:
            cursor.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        app.migrate()
    elif not is_in_memory(place.url):
        app.jobs().delete()
    with _making:
        _places.pop(alias)  # whoever asks next finds a store in memory that is new


def _is_shared(alias: str, schema: str) -> bool:
    """Tell whether tables of Django's may be in this schema, too."""
    with connections[alias].cursor() as cursor:
        cursor.execute("SELECT %s = ANY (current_schemas(false))", [schema])
        return bool(cursor.fetchone()[0])


def windlass_backend(alias: str) -> Any:
    """The backend of this alias. Raises ImproperlyConfigured where it is not Windlass's."""
    backend = task_backends[alias]
    if not _is_windlass(backend):
        raise ImproperlyConfigured(f"TASKS: backend {alias!r} is {type(backend).__name__}, not Windlass's")
    return backend


def _is_windlass(backend: Any) -> bool:
    """Told by its class of tasks: the backend's own module needs this one."""
    return issubclass(getattr(backend, "task_class", object), WindlassTask)


def _settle(alias: str, place: Place) -> None:
    """Make the app of a backend, or point the one there is at where TASKS says now."""
    backend = windlass_backend(alias)
    settings = {name: value for name, value in backend.options.items() if name not in OWN}
    app = _apps.get(alias)
    if app is None:
        app = _apps[alias] = DjangoApp(codec=backend.options.get("codec"))
        app.alias = alias
        app._caller_thread = DjangoThread()
        app._make_producer = functools.partial(DjangoProducer, place=functools.partial(_place_in_use, alias))
        app.on_failure(failure_hook(app, alias, functools.partial(known_task, alias)))
        for task in _tasks.get(alias, {}).values():
            _add(app, alias, task)
    reread(app)
    app._code = {"database_url": place.url, **settings}
    if place.of_tests:
        app.settings = msgspec.structs.replace(app.settings, database_url=place.url)


def _place_in_use(alias: str) -> Place | None:
    """Return where jobs live now; None while the testing kit keeps them."""
    app, place = app_and_place(alias)
    return None if app._test_mode is not None else place


def _add(app: Windlass, alias: str, task: Any) -> None:
    options = TaskOptions(name=job_name(task), queue=task.queue_name)
    of_backend = task_backends[alias].options
    attempts = getattr(task, "max_attempts", None) or of_backend.get("max_attempts")
    timeout = getattr(task, "timeout", None) or of_backend.get("timeout")
    if attempts is not None:
        options["retry"] = Retry(attempts)
    if timeout is not None:
        options["timeout"] = timeout
    try:
        app.task(**options)(runner(task, alias))
    except WindlassError as error:
        raise InvalidTask(f"{task.module_path}: {error}") from error


def _forget(*, setting: str, **_: Any) -> None:
    """Settings changed, as they do in tests: the next who asks finds an app that heeds them."""
    if setting in ("TASKS", "DATABASES"):
        with _making:
            _places.clear()


setting_changed.connect(_forget)
