"""A real PostgreSQL server for the tests: started, stopped, killed and restarted at will.

Each test process (each xdist worker too) runs a server of its own. Sharing one would couple tests that have
nothing to do with each other: transaction ids, snapshots, locks and roles belong to the whole server, so a
transaction that one test holds open would keep the holes of another test's lane alive.

Binaries come from `tests/postgres_install.py`; `tests/postgres_guard.py` ends the server when its owner dies
without doing so.
"""

import contextlib
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

import psutil
import psycopg
from psycopg import sql

from tests import postgres_guard
from tests.postgres_install import STOCK, HarnessError, Version, account, bin_dir

HOST = "127.0.0.1"
USER = "postgres"
START_TIMEOUT = 60.0
STOP_TIMEOUT = 30.0

PLACE: Mapping[str, str | int] = {"listen_addresses": HOST, "unix_socket_directories": ""}
"""All that a stock server is told besides its port and whether to sync: the rest is as it was shipped."""

SETTINGS: Mapping[str, str | int] = {
    **PLACE,
    "max_connections": 200,
    "max_prepared_transactions": 10,
    "shared_buffers": "128MB",
    "timezone": "UTC",
    "log_line_prefix": "%m [%p] %d ",
}


def memory() -> Path | None:
    """A directory that is kept in memory and has room for a whole run; None where there is no such thing."""
    place = Path("/dev/shm")  # noqa: S108 - whoever uses it makes a directory of their own in it
    if not os.access(place, os.W_OK):
        return None
    return place if shutil.disk_usage(place).free > 4 * 1024**3 else None


class Server:
    """One PostgreSQL server with a data directory of its own: of a version from a wheel, or "stock".

    `fsync=False` is faster and right for everything that does not test durability against a lost machine.
    `settings` are server settings that override the harness's own, `environment` is for all its processes.
    Roles belong to the whole server: a test that creates one gives it a unique name and drops it.
    """

    def __init__(
        self,
        version: Version = 18,
        *,
        fsync: bool = True,
        settings: Mapping[str, str | int] | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.version = version
        self.bin_dir = bin_dir(version)
        self.psql = self.bin_dir / "psql"
        self.password = secrets.token_hex(16)
        self.port = 0
        own = PLACE if version == STOCK else SETTINGS
        self.settings = {**own, "fsync": "on" if fsync else "off", **(settings or {})}
        self._environment = environment or {}
        self._account = account()
        self._home: Path | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._session: psycopg.Connection | None = None
        self._guard: subprocess.Popen[str] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def home(self) -> Path:
        """The directory that holds data and log, removed by close()."""
        if self._home is None:
            raise HarnessError("the server has no directory yet; call start() first")
        return self._home

    @property
    def data_dir(self) -> Path:
        """PostgreSQL's data directory."""
        return self.home / "data"

    @property
    def log_path(self) -> Path:
        """The server's log, all starts in one file."""
        return self.home / "postgres.log"

    @property
    def pid(self) -> int:
        """Process id of the postmaster."""
        if self._process is None:
            raise HarnessError("the server is not running; call start() first")
        return self._process.pid

    @property
    def running(self) -> bool:
        """Whether the postmaster lives."""
        return self._process is not None and self._process.poll() is None

    def dsn(self, database: str = "postgres") -> str:
        """A connection URL for the superuser."""
        return f"postgresql://{USER}:{self.password}@{HOST}:{self.port}/{database}"

    def start(self) -> None:
        """Start the server and return when it accepts connections; the first start creates its data."""
        if self.running:
            return
        try:
            if self._home is None:
                self._initialise()
            self._launch()
        except BaseException:
            self.close()
            raise

    def stop(self) -> None:
        """Stop the server, breaking off its sessions; data and port stay for the next start()."""
        if self._process is None:
            return
        self._leave()
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGKILL):
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.send_signal(number)
                self._process.wait(STOP_TIMEOUT)
                break
        self._forget_process()

    def kill9(self) -> None:
        """Kill every process of the server at once, as a power cut would. start() recovers from the log."""
        self._leave()
        postmaster = psutil.Process(self.pid)
        postmaster.suspend()  # so that it starts no child between the listing and the kill
        family = [postmaster, *postmaster.children(recursive=True)]
        for process in family:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()
        # Their shared memory must be free before the next start, so wait for the children as well.
        _, left = psutil.wait_procs(family[1:], timeout=STOP_TIMEOUT)
        if left:
            raise HarnessError(f"these processes of PostgreSQL survived SIGKILL: {[p.pid for p in left]}")
        assert self._process is not None
        self._process.wait(STOP_TIMEOUT)
        self._forget_process()

    def restart(self) -> None:
        """Stop and start again on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server for good and remove everything it left on disk."""
        self.stop()
        if self._guard is not None:
            assert self._guard.stdin is not None
            with contextlib.suppress(BrokenPipeError):  # a guard that somebody ended has nothing left to do
                self._guard.stdin.close()
            self._guard.wait(STOP_TIMEOUT)
            self._guard = None
        if self._home is not None:
            shutil.rmtree(self._home, ignore_errors=True)
            self._home = None

    def create_database(self, template: str = "template1") -> str:
        """Create a database with a random name, a copy of `template`, and return the name."""
        name = f"windlass_{secrets.token_hex(6)}"
        # Copying files needs a checkpoint before and after, which costs little where nothing is synced.
        strategy = "wal_log" if self.settings["fsync"] == "on" else "file_copy"
        self._execute(
            sql.SQL("CREATE DATABASE {} TEMPLATE {} STRATEGY {}").format(
                sql.Identifier(name), sql.Identifier(template), sql.SQL(strategy)
            )
        )
        return name

    def drop_database(self, name: str) -> None:
        """Drop a database and break off the sessions in it."""
        self._execute(sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name)))

    def _execute(self, statement: sql.Composed) -> None:
        """Run a statement in a session that is kept: a new one costs the server more than most of them do."""
        if self._session is not None:
            with contextlib.suppress(psycopg.OperationalError):  # a test may have ended every session
                self._session.execute(statement)
                return
            self._leave()
        self._session = psycopg.connect(self.dsn(), autocommit=True)
        self._session.execute(statement)

    def _leave(self) -> None:
        if self._session is not None:
            self._session.close()
            self._session = None

    def _initialise(self) -> None:
        # A copy of a database costs a tenth in memory; what must survive goes to the disk.
        place = None if self.settings["fsync"] == "on" else memory()
        self._home = Path(tempfile.mkdtemp(prefix=f"windlass-pg{self.version}-", dir=place))
        self._guard = subprocess.Popen(
            [sys.executable, "-P", postgres_guard.__file__, str(self._home)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        secret = self._home / "password"
        secret.write_text(self.password, encoding="ascii")
        if self._account is not None:
            for path in (self._home, secret):
                os.chown(path, self._account.uid, self._account.gid)
        # A password keeps other users of the machine out; the plain exchange and one round of hashing spare
        # clients and server SCRAM's slow key derivation at every connect, and nothing leaves the loopback.
        options = ["--auth=password", f"--pwfile={secret}", "--encoding=UTF8", "--no-sync"]
        if self.version == STOCK:
            options += ["--locale=C.UTF-8"]  # not C: its rules of sorting and matching are few users' own
        else:
            options += ["--locale=C", "-c", "scram_iterations=1"]
        process = self._spawn("initdb", "-D", str(self.data_dir), "-U", USER, *options)
        if process.wait(START_TIMEOUT) != 0:
            raise HarnessError(
                f"initdb of PostgreSQL {self.version} failed. If it may not enter {self._home.parent}, set "
                f"TMPDIR to a directory that every user can read.\n{self._log_tail()}"
            )
        secret.unlink()

    def _launch(self) -> None:
        for attempt in range(5):
            if attempt or not self.port:
                self.port = free_port()
            options = [f"-c{name}={value}" for name, value in self.settings.items()]
            self._process = self._spawn("postgres", "-D", str(self.data_dir), f"-p{self.port}", *options)
            self._tell_guard(self._process.pid)
            if self._wait_until_ready(self._process):
                return
            self._forget_process()
            if "could not bind" not in self._log_tail():
                break
        raise HarnessError(f"PostgreSQL {self.version} did not start; its log ends with:\n{self._log_tail()}")

    def _spawn(self, program: str, *arguments: str) -> subprocess.Popen[bytes]:
        # A session of its own, so that Ctrl-C in the terminal reaches the tests and not their server.
        user = self._account
        with self.log_path.open("ab") as log:
            try:
                return subprocess.Popen(
                    [self.bin_dir / program, *arguments],
                    cwd=self.home,
                    env={"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C", "TZ": "UTC"}
                    | dict(self._environment),
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                    user=user.uid if user else None,
                    group=user.gid if user else None,
                    extra_groups=[] if user else None,
                )
            except OSError as error:
                raise HarnessError(
                    f"cannot run {self.bin_dir / program}: {error}. PostgreSQL does not run as root; where "
                    "this account may not switch to another user, run the tests as an ordinary one."
                ) from error

    def _wait_until_ready(self, process: subprocess.Popen[bytes]) -> bool:
        """Wait for the word "ready" in postmaster.pid, as pg_ctl does; False when the server gave up."""
        deadline = time.monotonic() + START_TIMEOUT
        while process.poll() is None:
            lines: list[str] = []
            with contextlib.suppress(FileNotFoundError):
                lines = (self.data_dir / "postmaster.pid").read_text(encoding="utf-8").splitlines()
            # After a kill the file of the last start is still there: only our own number counts.
            if len(lines) >= 8 and lines[0] == str(process.pid) and lines[7].strip() == "ready":
                return True
            if time.monotonic() > deadline:
                process.kill()
                process.wait()
            time.sleep(0.01)
        return False

    def _forget_process(self) -> None:
        self._process = None
        self._tell_guard(0)

    def _tell_guard(self, pid: int) -> None:
        if self._guard is None:
            return
        assert self._guard.stdin is not None
        self._guard.stdin.write(f"{pid}\n")
        self._guard.stdin.flush()

    def _log_tail(self) -> str:
        return "\n".join(self.log_path.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])


def free_port() -> int:
    """A free port below those that systems use for outgoing connections, so that a restart finds it free."""
    for _ in range(200):
        port = 15000 + secrets.randbelow(15000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind((HOST, port))
            return port
    raise HarnessError("found no free port between 15000 and 30000 on 127.0.0.1; close some listeners")
