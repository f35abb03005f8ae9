"""windlass doctor: what it finds, and that trouble is a finding with advice rather than a traceback [M6]."""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.cli.kit import Desk, windlass
from windlass import __version__
from windlass.cli.doctor import _advice
from windlass.errors import StoreFull, StoreUnavailable


def findings(answer: Any) -> dict[str, Any]:
    return {finding["name"]: finding for finding in answer["findings"]}


def test_all_is_well(any_desk: Desk) -> None:
    answer = any_desk.json("doctor")
    found = findings(answer)
    assert answer["ok"] is True
    assert f"Windlass {__version__} on Python 3." in found["versions"]["text"]
    assert "asyncpg" in found["drivers"]["text"]
    assert found["database"]["text"].endswith("can be opened")
    assert "schema" in found
    assert all(finding["level"] != "error" for finding in answer["findings"])
    assert "ok      versions: " in any_desk.ok("doctor")


def test_m6_the_settings_in_force_hold_no_password(pg_dsn: str) -> None:
    said = Desk(pg_dsn).ok("doctor")
    password = pg_dsn.partition(":")[2].partition("@")[0].rpartition(":")[2]
    assert password
    assert password not in said
    assert pg_dsn.rpartition("/")[2] in said


def test_m6_a_database_that_cannot_be_reached() -> None:
    result = windlass("doctor", "--json", "--database", "postgresql://ada:s3cret@127.0.0.1:1/shop")
    found = findings(json.loads(result.stdout))["database"]
    assert result.exit_code == 1
    assert found["level"] == "error"
    assert found["text"].startswith("postgresql://127.0.0.1:1/shop: ")
    assert "see that the server runs" in found["advice"]
    assert "s3cret" not in result.output


def test_a_database_that_was_never_migrated(pg_database: str) -> None:
    result = windlass("doctor", "--database", pg_database)
    assert result.exit_code == 1
    assert "→ run `windlass migrate`" in result.stdout


HOLDS = """
import apsw, sys
file = apsw.Connection(sys.argv[1])
file.execute("BEGIN IMMEDIATE")
print("held", flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/locks").exists(), reason="the kernel lists no locks")
@pytest.mark.parametrize("stopped", [True, False])
def test_whoever_holds_the_write_lock_of_a_file_is_named(tmp_path: Path, stopped: bool) -> None:
    """A process that was stopped within a transaction keeps everybody else from writing."""
    file = tmp_path / "jobs.db"
    desk = Desk(f"sqlite:///{file.as_posix()}")
    desk.ok("migrate")
    argv, pipe = [sys.executable, "-c", HOLDS, str(file), "s3cret"], subprocess.PIPE
    with subprocess.Popen(argv, stdin=pipe, stdout=pipe) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == b"held\n"
            if stopped:
                holder.send_signal(signal.SIGSTOP)
            result = desk.run("doctor", "--json")
        finally:
            holder.kill()
    assert result.exit_code == 1
    found = findings(json.loads(result.stdout))["database"]
    assert f"jobs.db is busy: process {holder.pid} (python" in found["text"]
    assert ("which is stopped) has held its write lock" in found["text"]) is stopped
    assert (f"kill -CONT {holder.pid}" in found["text"]) is stopped
    assert "the process that it names" in found["advice"]
    assert "s3cret" not in result.output
    desk.ok("doctor")


def test_a_file_that_is_not_there_is_not_made(tmp_path: Path) -> None:
    result = windlass("doctor", "--database", f"sqlite:///{tmp_path.as_posix()}/jobs.db")
    assert result.exit_code == 0
    assert "warning database" in result.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("url", ["ada:s3cret", "mysql://ada:s3cret@h/db", "postgresql://a:s3cret/x@h/db"])
def test_settings_that_cannot_be_read(url: str) -> None:
    result = windlass("doctor", "--json", WINDLASS_DATABASE_URL=url)
    found = findings(json.loads(result.stdout))
    assert result.exit_code == 1
    assert found["settings"]["level"] == "error"
    assert found["settings"]["advice"]
    assert "s3cret" not in result.output


def test_m6_the_advice_on_a_full_disk_is_not_that_on_a_server_that_is_away() -> None:
    assert _advice(StoreFull("the disk is full")).startswith("free some space")
    assert "server runs" in _advice(StoreUnavailable("no answer"))
