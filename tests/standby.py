"""A hot standby that streams from a test's server: the same databases, to be read and not written, until it
is promoted."""

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psycopg

from tests import postgres_guard
from tests.postgres import START_TIMEOUT, Server, memory
from tests.postgres_install import HarnessError


class Standby(Server):
    """A server of its own, with a copy of the primary's data that follows it."""

    def __init__(self, primary: Server) -> None:
        super().__init__(primary.version, settings=primary.settings)
        self.primary = primary
        self.password = primary.password

    def caught_up(self) -> None:
        """Wait until everything that the primary has written so far can be read here."""
        with psycopg.connect(self.primary.dsn(), autocommit=True) as there:
            row = there.execute("SELECT pg_current_wal_insert_lsn()::text").fetchone()
        assert row is not None
        deadline = time.monotonic() + START_TIMEOUT
        with psycopg.connect(self.dsn(), autocommit=True) as here:
            while here.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", row).fetchone() != (True,):
                assert time.monotonic() < deadline, "the standby does not follow"
                time.sleep(0.01)

    def promote(self) -> None:
        """Make it a primary; returns when it takes writes."""
        with psycopg.connect(self.dsn(), autocommit=True) as here:
            assert here.execute("SELECT pg_promote()").fetchone() == (True,)

    def _initialise(self) -> None:
        place = None if self.settings["fsync"] == "on" else memory()
        self._home = Path(tempfile.mkdtemp(prefix=f"windlass-standby{self.version}-", dir=place))
        self._guard = subprocess.Popen(
            [sys.executable, "-P", postgres_guard.__file__, str(self._home)],
            stdin=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        if self._account is not None:
            os.chown(self._home, self._account.uid, self._account.gid)
        copy = ("-R", "-X", "stream", "-c", "fast", "--no-sync")
        process = self._spawn("pg_basebackup", "-d", self.primary.dsn(), "-D", str(self.data_dir), *copy)
        if process.wait(START_TIMEOUT) != 0:
            raise HarnessError(f"pg_basebackup failed:\n{self._log_tail()}")
