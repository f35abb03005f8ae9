"""A PostgreSQL URL as libpq takes it, so that one URL does for psql, psycopg and Windlass: several hosts,
service and password files, the environment's PG… variables. Nothing here connects, and nothing prints a
value: it may be a secret.

What a URL does not say comes from its service, then from the environment, as in libpq. The driver of the
workers is asyncpg, which cannot do all that libpq can: what it cannot keep is refused by name, since a URL
that asks for more safety than it gets would lie."""

from __future__ import annotations

import configparser
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote

import msgspec

from windlass.core.counts import plural
from windlass.errors import ConfigurationError

PORT: Final = 5432
TLS: Final = (
    "sslmode", "sslnegotiation", "sslcert", "sslkey", "sslpassword", "sslrootcert", "sslcrl",
    "ssl_min_protocol_version", "ssl_max_protocol_version", "krbsrvname", "gsslib",
)  # fmt: skip
"""Parameters that asyncpg reads as libpq does."""

_CHOICES: Final[Mapping[str, tuple[str, ...]]] = {
    "sslmode": ("disable", "allow", "prefer", "require", "verify-ca", "verify-full"),
    "sslnegotiation": ("postgres", "direct"),
    "target_session_attrs": ("any", "read-write", "read-only", "primary", "standby", "prefer-standby"),
    "load_balance_hosts": ("disable", "random"),
    "keepalives": ("0", "1"),
}
_NUMBERS: Final = (
    "connect_timeout", "keepalives_idle", "keepalives_interval", "keepalives_count", "tcp_user_timeout",
)  # fmt: skip
_FILES: Final = ("sslcert", "sslkey", "sslrootcert", "sslcrl")
_PLAIN: Final = (
    "host", "hostaddr", "port", "dbname", "user", "password", "passfile", "service", "servicefile", "options",
    "application_name", "fallback_application_name",
)  # fmt: skip

_CANNOT: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    "channel_binding": ("does no channel binding", ("prefer", "disable")),
    "gssencmode": ("does not encrypt by GSSAPI", ("prefer", "disable")),
    "require_auth": ("accepts any authentication method that the server asks for", ()),
    "requirepeer": ("does not check which user runs the server", ()),
    "sslcertmode": ("sends a client certificate if there is one", ("allow",)),
    "sslcrldir": ("reads revoked certificates from the file that sslcrl names", ()),
    "sslsni": ("always sends the host name (SNI)", ("1",)),
    "sslcompression": ("does not compress TLS", ("0",)),
    "sslkeylogfile": ("takes that from the variable SSLKEYLOGFILE", ()),
    "gssdelegation": ("delegates no credentials", ("0",)),
    "scram_client_key": ("logs in with a password", ()),
    "scram_server_key": ("logs in with a password", ()),
    "oauth_issuer": ("does not log in by OAuth", ()),
    "oauth_client_id": ("does not log in by OAuth", ()),
    "oauth_client_secret": ("does not log in by OAuth", ()),
    "oauth_scope": ("does not log in by OAuth", ()),
    "replication": ("opens no replication connection", ("0", "off", "false", "no")),
    "min_protocol_version": ("speaks version 3.0 of the protocol", ("3.0",)),
    "max_protocol_version": ("speaks version 3.0 of the protocol", ("3.0", "3.2", "latest")),
    "client_encoding": ("speaks UTF-8", ("utf8", "utf-8", "unicode", "auto")),
}
"""Parameters that asyncpg lacks, and the values that ask for no more than what it does."""

KNOWN: Final = frozenset((*_PLAIN, *TLS, *_NUMBERS, *_CHOICES, *_CANNOT))

_VARIABLES: Final = {
    **{name: f"PG{name.upper().replace('_', '')}" for name in (
        "host", "hostaddr", "port", "user", "password", "passfile", "service", "servicefile", "options",
        "sslmode", "sslnegotiation", "sslcert", "sslkey", "sslrootcert", "sslcrl", "sslcrldir", "sslsni",
        "sslcertmode", "ssl_min_protocol_version", "ssl_max_protocol_version", "channel_binding",
        "require_auth", "requirepeer", "gssencmode", "gssdelegation", "krbsrvname", "gsslib",
        "target_session_attrs", "load_balance_hosts", "client_encoding", "min_protocol_version",
        "max_protocol_version",
    )},
    "dbname": "PGDATABASE",
    "application_name": "PGAPPNAME",
    "connect_timeout": "PGCONNECT_TIMEOUT",
}  # fmt: skip


class Host(msgspec.Struct, frozen=True):
    """A server to try. `at` is what to connect to: a name, an address or the folder of a socket; None is
    where a server of this machine listens. `name` is what password files know it by."""

    at: str | None
    name: str
    port: int

    def __str__(self) -> str:
        return f"{self.at or 'localhost'}:{self.port}"


class Address(msgspec.Struct, frozen=True):
    """Where to connect, as whom and how. A number that the URL does not give is None."""

    hosts: tuple[Host, ...]
    user: str | None
    password: str | None
    database: str | None
    passfile: str | None
    wanted: str
    shuffled: bool
    connect_timeout: float | None
    settings: dict[str, str]
    """Settings to send the server at the start of a session: `application_name`, `options`."""
    tls: dict[str, str]
    keepalives: bool
    idle: int | None
    interval: int | None
    count: int | None
    user_timeout: int | None
    """These five are about the socket; the last one is in milliseconds."""

    @property
    def place(self) -> str:
        """The servers that may be asked, as they may be shown."""
        return " or ".join(map(str, self.hosts))

    def sets(self, name: str) -> bool:
        """Return whether the URL itself gives this setting of the server."""
        return name in self.settings or f"{name}=" in self.settings.get("options", "")


def read(url: str, environ: Mapping[str, str] | None = None) -> Address:
    """Return the address that a URL gives, with what service and environment add. Raises
    ConfigurationError."""
    environ = os.environ if environ is None else environ
    given = split(url)
    for add in (_of_service(given, environ), _of_environment(environ)):
        for name, value in add.items():
            given.setdefault(name, value)
    _check(given)
    timeout = _number(given, "connect_timeout")
    called = given.get("application_name") or given.get("fallback_application_name")
    settings = {"application_name": called, "options": given.get("options")}
    return Address(
        hosts=_hosts(given),
        user=given.get("user"),
        password=given.get("password"),
        database=given.get("dbname"),
        passfile=given.get("passfile"),
        wanted=given.get("target_session_attrs", "any"),
        shuffled=given.get("load_balance_hosts") == "random",
        connect_timeout=float(timeout) if timeout and timeout > 0 else None,
        settings={each: value for each, value in settings.items() if value},
        tls={each: given[each] for each in TLS if each in given},
        keepalives=given.get("keepalives", "1") == "1",
        idle=_number(given, "keepalives_idle"),
        interval=_number(given, "keepalives_interval"),
        count=_number(given, "keepalives_count"),
        user_timeout=_number(given, "tcp_user_timeout"),
    )


def split(url: str) -> dict[str, str]:
    """The parameters that a URL itself gives, by libpq's names. Raises ConfigurationError where its parts
    cannot be told apart; the message quotes nothing, since it may be the password."""
    rest = url.partition("://")[2]
    end = min((found for mark in "/?" if (found := rest.find(mark)) >= 0), default=len(rest))
    netloc, (path, mark, query) = rest[:end], rest[end:].partition("?")
    login, _, hosts = netloc.rpartition("@")
    if "@" in path + query or set(login) & set("#[]") or "#" in hosts + path:
        raise _unreadable()
    given: dict[str, str] = {}
    user, _, password = login.partition(":")
    names, ports = _listed(hosts)
    for name, value in (
        ("user", user), ("password", password), ("host", names), ("port", ports), ("dbname", path[1:])
    ):  # fmt: skip
        if value:
            given[name] = unquote(value)
    for pair in filter(None, query.split("&")) if mark else ():
        name, equals, value = pair.partition("=")
        if not equals:
            raise _unreadable()
        given.update(_named(unquote(name), unquote(value)))
    return given


def _named(name: str, value: str) -> dict[str, str]:
    """A parameter by the name that libpq knows it by."""
    if name == "ssl" and value == "true":  # as JDBC has it
        return {"sslmode": "require"}
    if name == "database":  # as asyncpg has it
        name = "dbname"
    if name not in KNOWN:
        raise ConfigurationError(
            f"the PostgreSQL URL has a parameter {name[:40]!r} that libpq does not know; a setting of the "
            f"server is written options=-c%20{name[:40]}%3D…"
        )
    return {name: value}


def _unreadable() -> ConfigurationError:
    return ConfigurationError(
        "the PostgreSQL URL cannot be read: a port is a number up to 65535, a parameter is name=value, and "
        "/ ? # [ ] @ in a user's name, a password or a query must be percent-encoded (/ is %2F, # is %23)"
    )


def _listed(hosts: str) -> tuple[str, str]:
    """`h1:p1,[::1]:p2,h3` as the lists that `host` and `port` are."""
    names, ports = [], []
    for each in hosts.split(","):
        if each.startswith("["):
            name, closed, port = each[1:].partition("]")
            if not closed or (port and not port.startswith(":")):
                raise _unreadable()
            port = port[1:]
        else:
            name, _, port = each.partition(":")
        if port and not unquote(port).isdecimal():
            raise _unreadable()
        names.append(name)
        ports.append(port)
    return ",".join(names) if any(names) else "", ",".join(ports) if any(ports) else ""


def _of_service(given: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    """Return the entry of the named service in a service file, the user's file before the system's."""
    service = given.get("service") or environ.get("PGSERVICE")
    if not service:
        return {}
    own = given.get("servicefile") or environ.get("PGSERVICEFILE")
    files = [Path(own or os.path.expanduser("~/.pg_service.conf"))]
    if environ.get("PGSYSCONFDIR"):
        files.append(Path(environ["PGSYSCONFDIR"]) / "pg_service.conf")
    files.append(Path("/etc/postgresql-common/pg_service.conf"))
    for file in files:
        entries = configparser.RawConfigParser(delimiters=("=",), strict=False)
        try:
            entries.read(file, encoding="utf-8")
        except (OSError, UnicodeDecodeError, configparser.Error) as error:
            raise ConfigurationError(
                f"the service file {file} cannot be read: {type(error).__name__}"
            ) from error
        if entries.has_section(service):
            found: dict[str, str] = {}
            for name, value in entries.items(service):
                found.update(_named(name, value))
            return found
    raise ConfigurationError(
        f"there is no service {service[:40]!r} in {', '.join(map(str, files))}; define it there, or name the "
        "host and the database in the URL"
    )


def _of_environment(environ: Mapping[str, str]) -> dict[str, str]:
    return {name: environ[each] for name, each in _VARIABLES.items() if environ.get(each)}


def _check(given: Mapping[str, str]) -> None:
    """Refuse what is invalid, and what the driver does not support."""
    for name, choices in _CHOICES.items():
        if name in given and given[name] not in choices:
            raise ConfigurationError(f"{name} in the PostgreSQL URL must be one of {', '.join(choices)}")
    for name, (instead, kept) in _CANNOT.items():
        if given.get(name, "").lower() not in ("", *kept):
            advice = f"write {name}={kept[0]} or leave it out" if kept else "leave it out"
            raise ConfigurationError(
                f"{name} as set in the PostgreSQL URL or environment is not supported: the asyncpg driver "
                f"{instead}; {advice}"
            )
    system = given.get("sslrootcert") == "system"
    if system and given.get("sslmode") not in (None, "verify-full"):
        raise ConfigurationError("sslrootcert=system in the PostgreSQL URL needs sslmode=verify-full")
    for name in _FILES if given.get("sslmode") != "disable" else ():
        path = given.get(name)
        if path and not (name == "sslrootcert" and system) and not os.access(path, os.R_OK):
            raise ConfigurationError(f"{name} names {path}, which is not a readable file")


def _number(given: Mapping[str, str], name: str) -> int | None:
    try:
        return int(given[name]) if given.get(name) else None
    except ValueError:
        raise ConfigurationError(f"{name} in the PostgreSQL URL must be a whole number") from None


def _hosts(given: Mapping[str, str]) -> tuple[Host, ...]:
    names = given.get("host", "").split(",")
    addresses = given["hostaddr"].split(",") if given.get("hostaddr") else names
    if len(names) == 1 and not names[0]:
        names = addresses
    ports = given.get("port", "").split(",")
    if len(ports) == 1:
        ports *= len(addresses)
    if len(names) != len(addresses) or len(ports) != len(addresses):
        raise ConfigurationError(
            f"the PostgreSQL URL names {plural(len(names), 'host')}, "
            f"{plural(len(addresses), 'address', 'addresses')} and {plural(len(ports), 'port')}; "
            "give each host one, or one port for all"
        )
    if addresses != names and given.get("sslmode") == "verify-full":
        raise ConfigurationError(
            "hostaddr in the PostgreSQL URL does not work with sslmode=verify-full: the asyncpg driver "
            "checks the name that it connects to; leave hostaddr out, or use verify-ca"
        )
    return tuple(
        Host(at or None, "localhost" if not at or at.startswith("/") else name or at, _port(port))
        for at, name, port in zip(addresses, names, ports, strict=True)
    )


def _port(port: str) -> int:
    if port and not (port.isdecimal() and 0 < int(port) < 65536):
        raise _unreadable()
    return int(port) if port else PORT


def shown(url: str) -> str:
    """The URL as it may be shown: hosts, ports, database and service, and no secret."""
    given = split(url)
    netloc = url.partition("://")[2].partition("?")[0].partition("/")[0].rpartition("@")[2]
    path = f"/{given['dbname']}" if "dbname" in given else ""
    named = ("service",) if netloc else ("host", "port", "service")
    query = "&".join(f"{name}={given[name]}" for name in named if name in given)
    return f"postgresql://{netloc}{path or '/'}" + (f"?{query}" if query else "")
