"""Where a measurement takes place: one PostgreSQL for the whole run with a fresh database each time, a fresh
Redis each time, or a file. The settings are the same for all and stand in the results.
"""

from __future__ import annotations

import contextlib
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import psutil
import psycopg

from bench.meters import Meter
from bench.subjects import POSTGRESQL, REDIS, Subject
from windlass.bench.server import Server, running_server

SETTINGS: Final = {"max_connections": "600", "shared_buffers": "512MB", "max_wal_size": "8GB"}
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - the ledger of a process that is killed must survive it
REDIS_SETTINGS: Final = ("--appendonly", "yes", "--appendfsync", "everysec", "--save", "")


@dataclass(frozen=True)
class Place:
    """A fresh store for one peer: what its program is told, a directory for its ledger, and the meter."""

    environment: dict[str, str]
    ledger: Path
    meter: Meter
    dsn: str | None = None


class Ground:
    """The servers of a run."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.redis = shutil.which("redis-server")

    def settings(self) -> dict[str, Any]:
        """What the servers are and how they are set."""
        names = ("server_version", "fsync", "synchronous_commit", "autovacuum", *SETTINGS)
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            shown = {name: connection.execute(f"SHOW {name}").fetchone() for name in names}
        told: dict[str, Any] = {"PostgreSQL": {name: row[0] for name, row in shown.items() if row}}
        if self.redis:
            version = subprocess.run([self.redis, "--version"], capture_output=True, text=True, check=True)
            told["Redis"] = {
                "version": version.stdout.split(" sha=")[0].removeprefix("Redis server v="),
                "durability": "append-only file, synced every second: a crash may lose the last second",
            }
        return told

    @contextlib.contextmanager
    def fresh(self, subject: Subject) -> Iterator[Place]:
        """An empty store, gone at the end."""
        base = SHARED_MEMORY if SHARED_MEMORY.is_dir() else None
        with tempfile.TemporaryDirectory(prefix="bench-ledger-", dir=base) as ledger:
            environment = {"BENCH_LEDGER": ledger}
            if subject.store == POSTGRESQL:
                with self._database() as (dsn, postmaster):
                    meter = Meter(postmaster, dsn)
                    yield Place({**environment, "BENCH_DSN": dsn}, Path(ledger), meter, dsn)
            elif subject.store == REDIS:
                with self._redis() as (url, process):
                    yield Place({**environment, "BENCH_REDIS": url}, Path(ledger), Meter(process))
            else:
                with tempfile.TemporaryDirectory(prefix="bench-file-") as folder:
                    yield Place({**environment, "BENCH_FILE": f"{folder}/jobs.db"}, Path(ledger), Meter(None))

    @contextlib.contextmanager
    def _database(self) -> Iterator[tuple[str, psutil.Process]]:
        name = f"bench_{secrets.token_hex(4)}"
        self._execute(f"CREATE DATABASE {name}")
        try:
            yield urlsplit(self.server.url)._replace(path=f"/{name}").geturl(), self._postmaster()
        finally:
            self._execute(f"DROP DATABASE {name} WITH (FORCE)")
            self._execute("CHECKPOINT")  # what one peer wrote is not the next one's load

    def _execute(self, statement: str) -> None:
        with psycopg.connect(self.server.url, autocommit=True) as connection:
            connection.execute(statement)

    def _postmaster(self) -> psutil.Process:
        with psycopg.connect(self.server.url) as connection:
            row = connection.execute("SELECT pg_backend_pid()").fetchone()
            assert row is not None
            parent = psutil.Process(row[0]).parent()
            assert parent is not None
            return parent

    @contextlib.contextmanager
    def _redis(self) -> Iterator[tuple[str, psutil.Process]]:
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


def _answering(port: int) -> None:
    until = time.monotonic() + 20
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        if time.monotonic() > until:
            raise RuntimeError("redis-server does not answer")
        time.sleep(0.05)


@contextlib.contextmanager
def ground() -> Iterator[Ground]:
    """The servers, for as long as the block lasts."""
    with running_server(SETTINGS) as server:
        yield Ground(server)
