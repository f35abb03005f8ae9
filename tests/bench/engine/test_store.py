"""`python -m bench engine store` end to end: the shape of its JSON, sane numbers, and nothing left behind."""

import json
import tempfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from bench.__main__ import bench as command
from tests.postgres import Server

SMALL = ("--quick", "--jobs", "2000", "--seconds", "0.3")
SCENARIOS = {"bulk_enqueue", "single_enqueue", "claim_finish", "both_at_once", "both_at_once_pinned"}
REFERENCES = {"raw_insert", "skip_locked", "skip_locked_same_batch"}
THIRDS = {
    f"{name}_{third}_third"
    for name in ("both_at_once", "both_at_once_pinned")
    for third in ("first", "second")
}


def bench(*arguments: str) -> dict[str, Any]:
    """Run the command and read its JSON."""
    result = CliRunner().invoke(command, ["engine", "store", "--json", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


def check_store(store: dict[str, Any], scenarios: set[str]) -> None:
    """Every scenario has a median over all rounds that is more than nothing, and what it cost."""
    assert set(store["rates"]) == scenarios | THIRDS
    assert set(store["cpu_per_1000_jobs"]) == scenarios
    assert store["rounds"] >= 1
    assert store["settings"]
    assert store["versions"]
    for name in scenarios:
        figure = store["rates"][name]
        assert figure["unit"] == "jobs/s"
        assert len(figure["rounds"]) == store["rounds"]
        # On a busy machine one short round of several may see nothing at all.
        assert 0 <= figure["low"] <= figure["median"] <= figure["high"], name
        assert figure["high"] > 0, name
        assert store["cpu_per_1000_jobs"][name]["client"] > 0
    for figure in store["ratios"].values():
        assert figure["median"] > 0


def check_postgres(store: dict[str, Any]) -> None:
    """What PostgreSQL has besides: references, WAL of each step, dead tuples."""
    assert store["store"] == "postgresql"
    check_store(store, SCENARIOS | REFERENCES)
    assert set(store["ratios"]) == {
        "bulk_vs_raw",
        "claim_finish_vs_skip_locked",
        "claim_finish_vs_skip_locked_same_batch",
        "pinned_vs_unpinned",
    }
    wal = {name: figure["median"] for name, figure in store["wal_bytes_per_job"].items()}
    assert set(wal) == {"enqueue", "claim", "finish", "total", "single_enqueue"}
    assert all(value > 0 for value in wal.values())
    assert wal["enqueue"] > 100  # more than its payload
    assert wal["total"] >= max(wal["enqueue"], wal["claim"], wal["finish"])
    assert {log: store["dead_tuples"][log] for log in ("ready", "claim", "outcome")} == {
        "ready": 0,
        "claim": 0,
        "outcome": 0,
    }
    assert [aim["figure"] for aim in store["aims"]] == [
        "bulk_vs_raw",
        "claim_finish_vs_skip_locked",
        "pinned_vs_unpinned",
        "wal_bytes_per_job",
        "dead_tuples",
    ]


@pytest.mark.slow
def test_both_stores_are_measured_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", "postgresql://nobody@192.0.2.1/never-used")
    report = bench(*SMALL, "--server", "wheel")
    assert {"os", "cores", "python", "asyncpg", "apsw", "sqlite"} <= set(report["machine"])
    assert report["plan"]["jobs"] == 2000
    sqlite, postgres = report["stores"]
    assert sqlite["store"] == "sqlite"
    check_store(sqlite, SCENARIOS)
    check_postgres(postgres)
    assert (postgres["place"], postgres["settings"]["fsync"]) == ("server: wheel", "on")
    assert {"ready_on_pages", "claim_on_pages", "outcome_on_pages"} <= set(postgres["dead_tuples"])


@pytest.mark.slow
def test_a_named_server_gets_databases_that_are_dropped_again(pg_server: Server) -> None:
    [store] = bench(*SMALL, "--store", "postgresql", "--server", pg_server.dsn())["stores"]
    check_postgres(store)
    assert pg_server.password not in str(store)  # no password in what people paste
    with psycopg.connect(pg_server.dsn()) as connection:
        rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'bench%'")
        assert rows.fetchall() == []


def test_sqlite_files_lie_where_temporary_files_go_and_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    [store] = bench("--quick", "--jobs", "200", "--seconds", "0.1", "--store", "sqlite")["stores"]
    check_store(store, SCENARIOS)
    assert store["settings"]["journal_mode"] == "wal"
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_no_postgresql_is_refused() -> None:
    result = CliRunner().invoke(command, ["engine", "store", "--server", "sqlite:///:memory:"])
    assert result.exit_code == 2
    assert "stock, wheel or a postgresql:// URL" in result.output
