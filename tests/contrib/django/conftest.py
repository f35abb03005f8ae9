"""The project of examples/django_shop in this process, with a database of the test's own.

Django takes its settings once for a process, so they are given when this folder is collected, before any test
runs; others who use Django here find it set up and only name their database. `configure` leaves the process's
time zone alone, which a settings module would not.
"""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import django
import pytest
from asgiref.sync import sync_to_async
from django.conf import settings

from examples.django_shop import settings as shop
from tests.postgres import Server

if not settings.configured:
    settings.configure(**{name: getattr(shop, name) for name in dir(shop) if name.isupper()})
    django.setup()

from django.core.management import call_command
from django.core.signals import setting_changed
from django.db import connections

from examples.django_shop.settings import database
from windlass import Windlass
from windlass.contrib.django import get_app


def point_at(url: str) -> None:
    """Have Django's default database be this one, and Windlass notice."""
    let_go()
    asyncio.run(sync_to_async(let_go)())  # in the thread where the ORM of async code works
    connections.settings = connections.configure_settings({"default": database(url)})
    setting_changed.send(sender=None, setting="TASKS", value=None, enter=True)


def let_go() -> None:
    """Forget this thread's connection: it leads to where it was made for."""
    if hasattr(connections._connections, "default"):
        connections["default"].close()
        del connections["default"]


@pytest.fixture(scope="package")
def sqlite_site(tmp_path_factory: pytest.TempPathFactory) -> str:
    """An SQLite database with the project's tables."""
    folder: Path = tmp_path_factory.mktemp("django")
    url = f"sqlite:///{folder.as_posix()}/shop.db"
    point_at(url)
    call_command("migrate", verbosity=0)
    return url


@pytest.fixture(scope="package")
def postgres_site(pg_server: Server, pg_template: str) -> Iterator[str]:
    """A PostgreSQL database with the project's tables and Windlass's schema."""
    name = pg_server.create_database(template=pg_template)
    point_at(pg_server.dsn(name))
    call_command("migrate", verbosity=0)
    connections["default"].close()
    yield pg_server.dsn(name)
    pg_server.drop_database(name)


@pytest.fixture
def on_sqlite(sqlite_site: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    """The project on SQLite."""
    yield from _at(sqlite_site, monkeypatch)


@pytest.fixture
def on_postgres(postgres_site: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    """The project on PostgreSQL."""
    yield from _at(postgres_site, monkeypatch)


@pytest.fixture(params=["sqlite", "postgres"])
def jobs(request: pytest.FixtureRequest) -> Any:
    """The project's Windlass app, without jobs, on each kind of database."""
    return request.getfixturevalue(f"on_{request.param}")


def _at(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Windlass]:
    for variable in ("DATABASE_URL", "WINDLASS_DATABASE_URL", "WINDLASS_SCHEMA"):
        monkeypatch.delenv(variable, raising=False)
    point_at(url)
    app = get_app()
    yield app
    from examples.django_shop.models import Order

    Order.objects.all().delete()
    app = get_app()
    app.jobs().delete()
    app.close()
    connections["default"].close()
