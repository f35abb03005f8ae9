"""A second server that begins as a base backup of another: a standby that streams from it, or a restore to a
point in time. Whoever promotes it has a new primary with the history up to there."""

import contextlib
import shutil
from collections.abc import Iterator, Mapping

import psycopg

from tests.postgres import START_TIMEOUT, Server
from tests.postgres_install import HarnessError


class Copy(Server):
    """A base backup of a running server, not started yet. `recover` are settings for its first start: with
    `recovery_target_…` it stops there and is a primary, without any it streams until it is promoted."""

    def __init__(self, original: Server, recover: Mapping[str, str] | None = None) -> None:
        super().__init__(original.version, fsync=False, settings={"hot_standby_feedback": "on"})
        self.bin_dir = original.bin_dir
        self.original = original
        self.recover = dict(recover or {})

    def _initialise(self) -> None:
        super()._initialise()
        shutil.rmtree(self.data_dir)
        self.password = self.original.password
        backup = self._spawn(
            "pg_basebackup", "-D", str(self.data_dir), "-d", self.original.dsn(), "-c", "fast", "-R"
        )
        if backup.wait(START_TIMEOUT) != 0:
            raise HarnessError(f"pg_basebackup failed:\n{self._log_tail()}")
        if self.recover:
            (self.data_dir / "standby.signal").rename(self.data_dir / "recovery.signal")
            with (self.data_dir / "postgresql.auto.conf").open("a", encoding="utf-8") as file:
                file.writelines(f"{name} = '{value}'\n" for name, value in self.recover.items())

    def take(self) -> None:
        """Make the backup, and do not start yet."""
        self._initialise()

    def caught_up(self) -> bool:
        """Whether it has replayed all that the original has flushed."""
        with psycopg.connect(self.original.dsn()) as one, psycopg.connect(self.dsn()) as two:
            flushed = one.execute("SELECT pg_current_wal_flush_lsn()").fetchone()
            replayed = two.execute("SELECT pg_last_wal_replay_lsn() >= %s::pg_lsn", flushed).fetchone()
        return replayed == (True,)

    def lag(self) -> None:
        """Receive nothing from now on, though the original goes on."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            while connection.execute("SELECT FROM pg_stat_wal_receiver").fetchone() is not None:
                connection.execute("SELECT pg_sleep(0.02)")

    def promote(self) -> None:
        """Make it a primary, and wait until it is."""
        with psycopg.connect(self.dsn(), autocommit=True) as connection:
            assert connection.execute("SELECT pg_promote()").fetchone() == (True,)


@contextlib.contextmanager
def pair() -> Iterator[tuple[Server, Copy]]:
    """A primary and a standby that streams from it."""
    with Server(18, fsync=False) as primary, Copy(primary) as standby:
        yield primary, standby
