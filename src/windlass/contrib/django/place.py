"""Where the jobs of a backend live, and what an enqueue waits for, by the OPTIONS of its TASKS entry.

    database    an alias of DATABASES (default: "default"), or a URL
    on_commit   the alias of the database whose commit is awaited, or False: enqueue at once

An alias that is PostgreSQL: the job is written on Django's own connection, in the transaction the caller is
in, and exists if and only if that commits [E1]. Nothing is awaited.

Anything else is another database than the caller's: a URL whatever it names, an alias that is SQLite the file
`windlass.db` beside it (in one file, Python's copy of SQLite and ours would break each other's locks), and
that of an alias that is PostgreSQL while WINDLASS_DATABASE_URL names a store of another kind.
Then the job is enqueued when the transaction of `on_commit` (default: the alias, else "default") has
committed: nobody runs a job for an order that was rolled back, or that cannot be seen yet. What is left is a
process that dies between the commit and the enqueue: that job is lost. With on_commit=False it is the other
way round.

In tests nobody may write to a real store. Django makes databases of other names then, and an alias that is
PostgreSQL follows; what else is named, also by the environment or by an alias for which no database was made,
becomes a store in memory, or the one that `test_database` in OPTIONS names.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlencode

import msgspec
from django.core import mail
from django.core.exceptions import ImproperlyConfigured
from django.db import DEFAULT_DB_ALIAS, connections

from windlass.settings import SettingsInCode
from windlass.store.factory import MEMORY
from windlass.store.postgres.connections.url import KNOWN

OWN: Final = ("database", "test_database", "on_commit", "max_attempts", "timeout", "codec")
"""The options that are the backend's; the others are settings of its Windlass app."""
FILE: Final = "windlass.db"


_real: Final[dict[str, Any]] = {}


class Place(msgspec.Struct, frozen=True):
    """Where jobs live: `url`, or inside the transactions of the Django connection `joins`, if the store is
    PostgreSQL. `awaits` is the alias whose commit comes first otherwise. `of_tests` says that no setting of
    the environment leads elsewhere."""

    url: str
    joins: str | None = None
    awaits: str | None = None
    of_tests: bool = False


def in_tests() -> bool:
    """Tell whether Django's test environment is set up: the outbox is there then, and only then."""
    return hasattr(mail, "outbox")


def note_real_databases() -> None:
    """Note the names of the databases before a test runner makes others."""
    _real.update({alias: each.get("NAME") for alias, each in connections.settings.items()})


def _is_real(alias: str, settings: Mapping[str, Any]) -> bool:
    """Tell whether this is the database that DATABASES named at first, and not as one for tests."""
    name = settings["NAME"]
    return alias in _real and name == _real[alias] != (settings.get("TEST") or {}).get("NAME")


def place_of(options: Mapping[str, Any]) -> Place:
    """The place that these OPTIONS name. Raises ImproperlyConfigured."""
    known = (*OWN, *SettingsInCode.__annotations__)
    unknown = sorted(set(options) - set(known))
    if unknown:
        raise ImproperlyConfigured(
            f"TASKS: OPTIONS has no {', '.join(unknown)} for Windlass; known: {', '.join(known)}"
        )
    database = str(options.get("database", DEFAULT_DB_ALIAS))
    testing = in_tests()
    aside = str(options.get("test_database", MEMORY)) if testing else None
    if "://" in database:
        return Place(aside or database, awaits=_awaited(options, DEFAULT_DB_ALIAS), of_tests=testing)
    _check_alias("database", database)
    connection = connections[database]
    settings, awaits = connection.settings_dict, _awaited(options, database)
    if connection.vendor == "sqlite":
        return Place(aside or beside(settings["NAME"]), awaits=awaits, of_tests=testing)
    if connection.vendor == "postgresql":
        if aside is not None and _is_real(database, settings):
            return Place(aside, awaits=awaits, of_tests=True)
        return Place(postgres_url(settings), joins=database, awaits=awaits, of_tests=testing)
    raise ImproperlyConfigured(
        f"TASKS: database {database!r} is {connection.vendor}, which Windlass has no store for; set OPTIONS "
        '["database"] to a URL: sqlite:////var/lib/shop/jobs.db or postgresql://…'
    )


def _awaited(options: Mapping[str, Any], alias: str) -> str | None:
    wish = options.get("on_commit", True)
    if wish is False or wish is None:
        return None
    awaited = alias if wish is True else str(wish)
    _check_alias("on_commit", awaited)
    return awaited


def _check_alias(option: str, alias: str) -> None:
    if alias not in connections.settings:
        raise ImproperlyConfigured(
            f"TASKS: {option} in OPTIONS is {alias!r}; DATABASES has {', '.join(connections.settings)}"
        )


def postgres_url(database: Mapping[str, Any]) -> str:
    """The URL of a PostgreSQL database in DATABASES, for workers and for those who look."""
    options = database.get("OPTIONS") or {}
    user, password, host = (str(database.get(name) or "") for name in ("USER", "PASSWORD", "HOST"))
    # What libpq knows; the rest is psycopg's or Django's.
    query = {name: str(value) for name, value in options.items() if name in KNOWN and value}
    if host.startswith("/") or "," in host:  # the folder of a socket, or several hosts
        query["host"], host = host, ""
    if database.get("PORT") and not host:
        query["port"] = str(database["PORT"])
    login = quote(user, safe="") + (f":{quote(password, safe='')}" if password else "")
    port = f":{database['PORT']}" if database.get("PORT") and host else ""
    address = f"{login}@{host}{port}" if login else f"{host}{port}"
    return f"postgresql://{address}/{quote(str(database['NAME']), safe='')}" + (
        f"?{urlencode(query, quote_via=quote, safe='')}" if query else ""
    )


def beside(database: str | Path) -> str:
    """The URL of the store beside an SQLite database of Django's. One in memory has its store in memory."""
    if str(database) == ":memory:" or str(database).startswith("file:"):
        return MEMORY
    return f"sqlite:///{quote(Path(database).absolute().with_name(FILE).as_posix())}"
