"""Making a connection: try the hosts of a URL one after the other until one is of the kind the URL asks for.

Where the URL has no password, a password file may, as in libpq.

Connections know PostgreSQL's own array types. asyncpg asks the server about every type that it does not know,
on each connection anew. Our statements take and return arrays, so a new connection asked three to five times:
up to three round trips each, and 5 to 10 ms of the server's CPU. Many workers that start at once, or a short
command, feel that. The built-in types have the same numbers on every server, so nobody need ask.
"""

from __future__ import annotations

import asyncio
import functools
import getpass
import logging
import os
import random
import re
import socket
import ssl
import stat
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final
from urllib.parse import urlencode

import asyncpg
from asyncpg.pool import PoolConnectionProxy

from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.store.postgres.connections.url import Address, Host

CONNECT: Final = 10.0
"""Seconds that a new connection may take, for each host, where the URL does not say."""

_WANTED: Final = {
    "read-write": "takes writes", "read-only": "is read-only",
    "primary": "is a primary", "standby": "is a standby",
}  # fmt: skip

ARRAYS: Final = {
    1000: ("_bool", 16), 1001: ("_bytea", 17), 1005: ("_int2", 21), 1007: ("_int4", 23),
    1016: ("_int8", 20), 1022: ("_float8", 701), 1185: ("_timestamptz", 1184),
}  # fmt: skip
"""By its number in pg_type, the name of each type of arrays that our statements use, and the number of its
elements' type. asyncpg knows text[], and the types of the elements."""

_FIELD: Final = re.compile(r"((?:\\.|[^:\\])*)(?::|$)")
logger: Final = logging.getLogger("windlass.store")


class _Answer(dict[str, Any]):
    """A row of the answer to asyncpg's question; None is in the fields that are not about arrays, and in what
    a later asyncpg may ask for besides."""

    def __missing__(self, field: str) -> None:
        return None


_ANSWER: Final = [
    _Answer(oid=oid, ns="pg_catalog", name=name, kind=b"b", elemtype=element, elemdelim=b",")
    for oid, (name, element) in ARRAYS.items()
]
_ASKED_BY: Final = SimpleNamespace(name="nothing")
"""In place of the statement that asked: asyncpg looks whether it took the place of a nameless one."""


class Connection(asyncpg.Connection):  # type: ignore[misc]
    """asyncpg's connection, but it does not ask for the types in ARRAYS. The method that it overrides is not
    public: should asyncpg stop calling it, each connection asks again, and nothing else changes."""

    async def _introspect_types(self, typeoids: Any, *args: Any, **options: Any) -> Any:
        if ARRAYS.keys() >= set(typeoids):
            return _ANSWER, _ASKED_BY
        return await super()._introspect_types(typeoids, *args, **options)


class Loan(PoolConnectionProxy):  # type: ignore[misc]
    """A connection for somebody who may keep it for too long: it works until `end`. The driver does the same
    for those of its own pool, which it asks to forget statements when a type has changed."""

    __slots__ = ("_connection",)

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        super().__init__(self, connection)

    def end(self) -> None:
        """From now on it raises InterfaceError."""
        self._detach()

    @property
    def _pool(self) -> Loan:
        return self

    def _drop_statement_cache(self) -> None:
        self._connection._drop_local_statement_cache()

    def _drop_type_cache(self) -> None:
        self._connection._drop_local_type_cache()


async def connect(
    address: Address, settings: Mapping[str, str], longest: float, **options: Any
) -> Connection:
    """A connection to the first host that can be reached and is what `target_session_attrs` says. `settings`
    are sent to the server unless the URL has its own; `longest` bounds the wait for each host.

    As in libpq, a host that refuses our login ends the search; one that cannot be reached, is starting or is
    of the wrong kind does not."""
    hosts = random.sample(address.hosts, len(address.hosts)) if address.shuffled else address.hosts
    timeout = min(address.connect_timeout or CONNECT, longest)
    sent = {name: value for name, value in settings.items() if not address.sets(name)} | address.settings
    # One of another kind is better than none, once every host was asked.
    passes = ("standby", "any") if address.wanted == "prefer-standby" else (address.wanted,)
    failures: list[tuple[Host, Exception]] = []
    for wanted in passes:
        failures.clear()
        for host in hosts:
            try:
                connection = await asyncpg.connect(
                    **_arguments(address, host),
                    target_session_attrs=wanted,
                    server_settings=sent,
                    timeout=timeout,
                    connection_class=Connection,
                    **options,
                )
            except (OSError, asyncpg.CannotConnectNowError, asyncpg.TargetServerAttributeNotMatched) as error:
                failures.append((host, error))
            except asyncpg.ProtocolViolationError as error:
                raise _from_a_pooler(error) from error
            except (
                asyncpg.UndefinedObjectError,
                asyncpg.InvalidParameterValueError,
                asyncpg.CantChangeRuntimeParamError,
                asyncpg.PostgresSyntaxError,
            ) as error:
                message = f"the server refuses what the URL's `options` set: {error}"
                raise ConfigurationError(message) from error
            else:
                _keep_alive(address, connection)
                return connection  # type: ignore[no-any-return]
    raise _nowhere(address.wanted, failures) from failures[0][1]


def _arguments(address: Address, host: Host) -> dict[str, Any]:
    """asyncpg's arguments for one host. It takes TLS settings in a URL only, so it gets one with just
    those."""
    try:
        user = address.user or getpass.getuser()
    except (KeyError, OSError):
        raise ConfigurationError("the PostgreSQL URL names no user, and this process has no name") from None
    database = address.database or user
    password = address.password
    if password is None:
        password = password_of(address.passfile, host.name, host.port, database, user)
    tls = dict(address.tls)
    found: dict[str, Any] = {
        "host": host.at, "port": host.port, "user": user, "database": database,
        "password": password or "",  # None would have it look for a file of its own
    }  # fmt: skip
    if tls.get("sslrootcert") == "system":
        found["ssl"] = _by_the_system(tls)
        tls = {}
    elif host.at is not None and host.at.startswith("/"):
        tls = {"sslmode": "disable"}  # a socket needs none, as in libpq
    return {"dsn": f"postgresql:///?{urlencode(tls)}" if tls else None, **found}


def _by_the_system(tls: Mapping[str, str]) -> ssl.SSLContext:
    """Trust those whom the system trusts."""
    context = ssl.create_default_context()
    if "sslcert" in tls:
        context.load_cert_chain(tls["sslcert"], tls.get("sslkey"), lambda: tls.get("sslpassword", ""))
    return context


def _keep_alive(address: Address, connection: Any) -> None:
    """Set TCP keepalives as the URL says, so that the system notices a server that has vanished."""
    found = connection._transport.get_extra_info("socket")
    if found is None or found.family not in (socket.AF_INET, socket.AF_INET6):
        return
    wishes = {"TCP_USER_TIMEOUT": address.user_timeout}
    if address.keepalives:
        wishes |= {
            "TCP_KEEPIDLE": address.idle, "TCP_KEEPINTVL": address.interval, "TCP_KEEPCNT": address.count
        }  # fmt: skip
    # A loop may hand out something that only looks like a socket; what is set on a copy holds for both.
    with socket.socket(found.family, found.type, fileno=os.dup(found.fileno())) as own:
        own.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, int(address.keepalives))
        for name, wish in wishes.items():
            if wish and hasattr(socket, name):
                own.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), wish)


def _from_a_pooler(error: asyncpg.ProtocolViolationError) -> Exception:
    """PgBouncer passes few of the settings that a session can start with, and says so in these words."""
    if "startup parameter" not in str(error):
        return StoreUnavailable(f"PostgreSQL refuses connections at the moment: {error}")
    return ConfigurationError(
        f"a pooler between here and the server refuses what the URL sends: {error}; leave it out of "
        "the URL, or let the pooler pass it (PgBouncer: ignore_startup_parameters)"
    )


def _nowhere(wanted: str, failures: list[tuple[Host, Exception]]) -> StoreUnavailable:
    host, error = failures[0]
    if len(failures) == 1 and not isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailable(f"PostgreSQL at {host} cannot be reached: {_reason(error, wanted)}")
    message = "; ".join(f"{host}: {_reason(error, wanted)}" for host, error in failures)
    return StoreUnavailable(f"no server of the URL can be used: {message}")


def _reason(error: Exception, wanted: str) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"the URL wants a server that {_WANTED[wanted]}, and this one is not (target_session_attrs)"
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__


# -- password files -----------------------------------------------------------------------------------


def password_of(passfile: str | None, host: str, port: int, database: str, user: str) -> str | None:
    """The password that a file has for these, or None. A line is host:port:database:user:password, `*` fits
    anything, and a backslash takes a colon or a backslash as it is. Read anew at each connect: it may
    change."""
    path = Path(passfile or os.path.expanduser("~/.pgpass"))
    try:
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            return None
        if os.name == "posix" and mode & (stat.S_IRWXG | stat.S_IRWXO):
            _ignored(path)
            return None
        lines = path.read_text("utf-8").splitlines()
    except FileNotFoundError:
        return None
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigurationError(
            f"the password file {path} cannot be read: {type(error).__name__}"
        ) from error
    wanted = (host, str(port), database, user)
    for line in lines:
        fields = [re.sub(r"\\(.)", r"\1", each) for each in _FIELD.findall(line)]
        if line.startswith("#") or len(fields) < 5:
            continue
        if all(field in ("*", want) for field, want in zip(fields, wanted, strict=False)):
            return fields[4]
    return None


@functools.cache
def _ignored(path: Path) -> None:
    logger.warning("the password file %s is not used, since others may read it: chmod 0600 %s", path, path)
