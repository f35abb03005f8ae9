"""Where jobs live, by the OPTIONS of a backend: what is joined, what is awaited, what is refused."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import connections
from django.test import override_settings

from windlass.contrib.django.api import task_backends
from windlass.contrib.django.app import first_backend, get_app
from windlass.contrib.django.place import Place, beside, place_of, postgres_url
from windlass.store.factory import MEMORY

POSTGRES = {
    "ENGINE": "django.db.backends.postgresql",
    "NAME": "shop",
    "USER": "ada",
    "HOST": "db",
    "PORT": 6432,
}
SQLITE = {"ENGINE": "django.db.backends.sqlite3", "NAME": "/srv/shop.db"}
OTHER = {"ENGINE": "django.db.backends.dummy", "NAME": "shop"}


@pytest.fixture(autouse=True)
def databases() -> Iterator[None]:
    before = connections.settings
    connections.settings = connections.configure_settings(
        {"default": dict(SQLITE), "shop": dict(POSTGRES), "other": dict(OTHER)}
    )
    if hasattr(connections._connections, "default"):
        del connections["default"]
    yield
    for alias in ("default", "shop", "other"):
        if hasattr(connections._connections, alias):
            del connections[alias]
    connections.settings = before


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"database": "shop"}, Place("postgresql://ada@db:6432/shop", joins="shop", awaits="shop")),
        ({"database": "shop", "on_commit": False}, Place("postgresql://ada@db:6432/shop", joins="shop")),
        ({}, Place("sqlite:////srv/windlass.db", awaits="default")),
        ({"on_commit": "shop"}, Place("sqlite:////srv/windlass.db", awaits="shop")),
        ({"on_commit": False}, Place("sqlite:////srv/windlass.db")),
        ({"database": "sqlite:///jobs.db"}, Place("sqlite:///jobs.db", awaits="default")),
        ({"database": "postgresql://jobs/jobs"}, Place("postgresql://jobs/jobs", awaits="default")),
        ({"retention": "3d", "max_attempts": 3}, Place("sqlite:////srv/windlass.db", awaits="default")),
    ],
)
def test_places(options: dict[str, Any], place: Place) -> None:
    assert place_of(options) == place


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"database": "shops"}, r"database in OPTIONS is 'shops'; DATABASES has default, shop, other"),
        ({"on_commit": "shops"}, r"on_commit in OPTIONS is 'shops'"),
        ({"database": "other"}, r"which Windlass has no store for; set OPTIONS"),
        ({"retries": 3}, r"OPTIONS has no retries for Windlass; known: database, test_database, on_commit"),
    ],
)
def test_places_that_are_none(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ImproperlyConfigured, match=text):
        place_of(options)
    with override_settings(
        TASKS={"default": {"BACKEND": "windlass.contrib.django.WindlassBackend", "OPTIONS": options}}
    ):
        (error,) = task_backends["default"].check()
    assert error.id == "windlass.E001"


@pytest.mark.parametrize(
    ("changes", "url"),
    [
        ({"PASSWORD": "p@ss/w#rd"}, "postgresql://ada:p%40ss%2Fw%23rd@db:6432/shop"),
        ({"USER": "", "HOST": "", "PORT": ""}, "postgresql:///shop"),
        ({"HOST": "/run/pg"}, "postgresql://ada@/shop?host=%2Frun%2Fpg&port=6432"),
        (
            {"OPTIONS": {"sslmode": "require", "pool": True, "isolation_level": 3}},
            "postgresql://ada@db:6432/shop?sslmode=require",
        ),
        (
            {"HOST": "h1,h2", "PORT": "1,2", "OPTIONS": {"target_session_attrs": "read-write"}},
            "postgresql://ada@/shop?target_session_attrs=read-write&host=h1%2Ch2&port=1%2C2",
        ),
        (
            {"OPTIONS": {"options": "-c work_mem=5MB"}},
            "postgresql://ada@db:6432/shop?options=-c%20work_mem%3D5MB",
        ),
    ],
)
def test_the_url_of_a_database_of_django(changes: dict[str, Any], url: str) -> None:
    assert postgres_url({**POSTGRES, **changes}) == url


@pytest.mark.parametrize(
    ("options", "place"),
    [
        ({"database": "shop"}, Place("postgresql://ada@db:6432/shop", "shop", "shop", of_tests=True)),
        ({}, Place(MEMORY, awaits="default", of_tests=True)),
        ({"database": "postgresql://jobs/jobs"}, Place(MEMORY, awaits="default", of_tests=True)),
        (
            {"database": "postgresql://jobs/jobs", "test_database": "sqlite:///try.db"},
            Place("sqlite:///try.db", awaits="default", of_tests=True),
        ),
    ],
)
def test_places_in_tests(options: dict[str, Any], place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mail, "outbox", [], raising=False)
    assert place_of(options) == place


def test_a_database_that_a_service_names() -> None:
    """libpq reads the service file, and so do workers."""
    named = {**POSTGRES, "NAME": "", "USER": "", "HOST": "", "PORT": "", "OPTIONS": {"service": "shop"}}
    assert postgres_url(named) == "postgresql:///?service=shop"


def test_the_store_beside_a_file(tmp_path: Path) -> None:
    assert beside(tmp_path / "a b" / "shop.db") == f"sqlite:///{tmp_path.as_posix()}/a%20b/windlass.db"
    assert beside(":memory:") == beside("file:memorydb?mode=memory") == "sqlite:///:memory:"


def test_a_backend_that_is_not_ours() -> None:
    dummy = task_backends["default"].__class__.__mro__[1].__module__.replace("base", "dummy.DummyBackend")
    with override_settings(TASKS={"default": {"BACKEND": dummy}}):
        with pytest.raises(ImproperlyConfigured, match="no backend in TASKS is Windlass's"):
            first_backend()
        with pytest.raises(ImproperlyConfigured, match="'default' is DummyBackend, not Windlass's"):
            get_app("default")
