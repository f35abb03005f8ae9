"""Making a connection: the hosts of a URL one after the other, until one is what the URL wants."""

from __future__ import annotations

import asyncio
import getpass
import os
import random
import socket
import ssl
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlencode

import asyncpg

from windlass.errors import ConfigurationError, StoreUnavailable
from windlass.store.postgres.connection import Connection
from windlass.store.postgres.passfile import password_of
from windlass.store.postgres.url import Address, Host

CONNECT: Final = 10.0
"""Seconds that a new connection may take, for each host, where the URL does not say."""

_WANTED: Final = {
    "read-write": "takes writes", "read-only": "is read-only",
    "primary": "is a primary", "standby": "is a standby",
}  # fmt: skip


async def connect(
    address: Address, settings: Mapping[str, str], longest: float, **options: Any
) -> Connection:
    """A connection to the first host that can be reached and is what `target_session_attrs` says. `settings`
    are sent to the server unless the URL has its own; `longest` bounds the wait for each host.

    As in libpq, a host that lets us not in ends the search; one that cannot be reached, is starting or is of
    the wrong kind does not."""
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
            except (OSError, TimeoutError, asyncpg.CannotConnectNowError) as error:
                failures.append((host, error))
            except asyncpg.TargetServerAttributeNotMatched as error:
                failures.append((host, error))
            except asyncpg.ProtocolViolationError as error:
                raise _from_a_pooler(error) from error
            except (
                asyncpg.UndefinedObjectError,
                asyncpg.InvalidParameterValueError,
                asyncpg.CantChangeRuntimeParamError,
                asyncpg.PostgresSyntaxError,
            ) as error:
                told = f"the server refuses what the URL's `options` set: {error}"
                raise ConfigurationError(told) from error
            else:
                _keep_alive(address, connection)
                return connection  # type: ignore[no-any-return]
    raise _nowhere(address.wanted, failures) from failures[0][1]


def _arguments(address: Address, host: Host) -> dict[str, Any]:
    """What asyncpg is told of one host. Its TLS is set in a URL alone, so it gets one with only that."""
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
    """Let the system find out that the other side has vanished, as the URL says."""
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
    """PgBouncer knows few of the settings that a session can begin with, and says so in these words."""
    if "startup parameter" not in str(error):
        return StoreUnavailable(f"PostgreSQL lets nobody in at the moment: {error}")
    return ConfigurationError(
        f"a pooler stands between, and refuses what the URL sends to the server: {error}; leave it "
        "out of the URL, or let the pooler pass it (PgBouncer: ignore_startup_parameters)"
    )


def _nowhere(wanted: str, failures: list[tuple[Host, Exception]]) -> StoreUnavailable:
    told = "; ".join(f"{host}: {_reason(error, wanted)}" for host, error in failures)
    if len(failures) == 1 and not isinstance(failures[0][1], asyncpg.TargetServerAttributeNotMatched):
        return StoreUnavailable(f"PostgreSQL cannot be reached: {_reason(failures[0][1], wanted)}")
    return StoreUnavailable(f"no server of the URL can be used: {told}")


def _reason(error: Exception, wanted: str) -> str:
    if isinstance(error, asyncpg.TargetServerAttributeNotMatched):
        return f"the URL wants one that {_WANTED[wanted]}, and this is another kind (target_session_attrs)"
    if isinstance(error, asyncio.TimeoutError):
        return "no answer in time"
    return str(error) or type(error).__name__
