"""Where every measurement takes place, beside peers and of the engine alone: one PostgreSQL for the whole run
with a fresh database each time, a fresh Redis each time, or a file. What the servers are and how they are set
stands in the results.

PostgreSQL is the stock one of this machine's packages (`--server stock`), that of a wheel (`wheel`), or one
that runs already (a URL). Those that are started here keep their default settings, with fsync on; only
`max_connections` is raised, for the crowds of worker processes.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import psycopg

from bench.meters import Meter
from tests.postgres import Server
from tests.postgres_install import STOCK

ROOT: Final = Path(__file__).resolve().parent.parent
POSTGRESQL, REDIS, SQLITE = "PostgreSQL", "Redis", "SQLite"
WHEEL: Final = "wheel"
SETTINGS: Final = {"max_connections": "600"}
CHANGED: Final = """
SELECT name, current_setting(name) FROM pg_settings
 WHERE setting IS DISTINCT FROM boot_val
   AND source NOT IN ('default', 'override', 'client', 'session')
   AND category NOT LIKE 'Reporting and Logging%%' AND category NOT LIKE '%%Locale and Formatting'
   AND name NOT IN ('listen_addresses', 'port', 'unix_socket_directories')
 ORDER BY name
"""
HERE: Final = ("127.0.0.1", "::1", "localhost", None)
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the ledger of a process that is killed must survive it
REDIS_SETTINGS: Final = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")


@dataclass(frozen=True)
class Place:
    """A fresh store: its URL, what a peer's program is told, a directory for the ledger, and the meter."""

    url: str
    environment: dict[str, str]
    ledger: Path
    meter: Meter


class Servers:
    """The servers of a run. A PostgreSQL that is somebody else's cannot be restarted."""

    def __init__(self, kind: str, url: str, restart: Callable[[], None] | None = None) -> None:
        self.kind = kind
        self.url = url
        self.restart = restart
        self.redis = shutil.which("redis-server")

    def settings(self) -> dict[str, Any]:
        """What the servers are and how they are set."""
        with psycopg.connect(self.url, autocommit=True) as connection:

            def ask(query: str) -> Any:
                row = connection.execute(query.encode()).fetchone()
                return row[0] if row else None

            jit = ask("SHOW jit")
            if jit == "on" and not ask("SELECT pg_jit_available()"):
                jit = "on, without a compiler"
            always = ("fsync", "synchronous_commit", "autovacuum")
            changed: dict[str, str] = dict(connection.execute(CHANGED).fetchall())
            details: dict[str, Any] = {
                "PostgreSQL": {
                    "server": self.kind,
                    "version": ask("SHOW server_version"),
                    "jit": jit,
                    **{name: ask(f"SHOW {name}") for name in always},
                    "changed from its defaults": "; ".join(
                        f"{name} = {value}" for name, value in changed.items() if name not in always
                    )
                    or "nothing",
                }
            }
        if self.redis:
            version = subprocess.run([self.redis, "--version"], capture_output=True, text=True, check=True)
            details["Redis"] = {
                "version": version.stdout.split(" sha=")[0].removeprefix("Redis server v="),
                "durability": "append-only file, synced every second: a crash may lose the last second",
            }
        return details

    def notes(self) -> list[str]:
        """What cannot be measured here."""
        said = []
        if not self.redis:
            said.append("No redis-server was found: the peers on Redis were left out.")
        if self.restart is None:
            said.append("PostgreSQL was given by its URL: it was not restarted.")
        if self._postmaster() is None:
            said.append("PostgreSQL does not run on this machine: its processor time is not counted.")
        return said

    @contextlib.contextmanager
    def fresh(self, store: str) -> Iterator[Place]:
        """An empty store of this kind, gone at the end."""
        if store == SQLITE:
            with fresh_file() as place:
                yield place
            return
        on_postgresql = store == POSTGRESQL
        with _ledger() as ledger, self._database() if on_postgresql else self._redis() as (url, process):
            variable, dsn = ("BENCH_DSN", url) if on_postgresql else ("BENCH_REDIS", None)
            yield Place(url, {"BENCH_LEDGER": str(ledger), variable: url}, ledger, Meter(process, dsn))

    @contextlib.contextmanager
    def _database(self) -> Iterator[tuple[str, psutil.Process | None]]:
        name = f"bench_{secrets.token_hex(4)}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(self.url)._replace(path=f"/{name}").geturl(), self._postmaster()
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")
            with contextlib.suppress(psycopg.errors.InsufficientPrivilege):
                self._execute("CHECKPOINT")  # what one peer wrote is not the next one's load

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(statement)

    def _postmaster(self) -> psutil.Process | None:
        """The process that the server's others are children of; None where it is on another machine."""
        if urlsplit(self.url).hostname not in HERE:
            return None
        with psycopg.connect(self.url) as connection, contextlib.suppress(psutil.NoSuchProcess):
            parent = psutil.Process(connection.info.backend_pid).parent()
            if parent is not None and "postgres" in parent.name():
                return parent
        return None

    @contextlib.contextmanager
    def _redis(self) -> Iterator[tuple[str, psutil.Process | None]]:
        assert self.redis is not None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        with tempfile.TemporaryDirectory(prefix="bench-redis-") as folder:
            words = ["--bind", "127.0.0.1", "--port", str(port), "--dir", folder, "--loglevel", "warning"]
            process = subprocess.Popen([self.redis, *words, *REDIS_SETTINGS], stdout=subprocess.DEVNULL)
            try:
                _answering(port)
                yield f"redis://127.0.0.1:{port}/0", psutil.Process(process.pid)
            finally:
                process.terminate()
                process.wait(30)


@contextlib.contextmanager
def fresh_file() -> Iterator[Place]:
    """A file for SQLite that is not there yet, in the system's temporary directory; gone at the end."""
    with _ledger() as ledger, tempfile.TemporaryDirectory(prefix="bench-file-") as folder:
        path = f"{folder}/jobs.db"
        yield Place(f"sqlite:///{path}", {"BENCH_LEDGER": str(ledger), "BENCH_FILE": path}, ledger, Meter())


@contextlib.contextmanager
def _ledger() -> Iterator[Path]:
    base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
    with tempfile.TemporaryDirectory(prefix="bench-ledger-", dir=base) as folder:
        yield Path(folder)


@contextlib.contextmanager
def pinned_snapshot(dsn: str) -> Iterator[None]:
    """A transaction that reads once and then stays open, as a forgotten one, a long report or a slow backup
    does: no tuple that dies now can be cleaned away."""
    with psycopg.connect(dsn) as connection:
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        connection.execute("SELECT count(*) FROM pg_class")
        yield
        connection.rollback()


def _answering(port: int) -> None:
    until = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > until:
            raise RuntimeError("redis-server does not answer")
        time.sleep(0.05)


@contextlib.contextmanager
def started(server: str) -> Iterator[Servers]:
    """The servers, for as long as the block lasts: PostgreSQL is "stock", "wheel" or a URL."""
    if server not in (STOCK, WHEEL):
        yield Servers("given by its URL", server)
        return
    with Server(STOCK if server == STOCK else 18, settings=SETTINGS) as postgres:
        yield Servers(server, postgres.dsn(), postgres.restart)
