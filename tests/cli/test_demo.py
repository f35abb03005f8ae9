"""`windlass demo`: what it proves, on real processes that are really killed, and that its proof can fail."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import httpx
import msgspec
import psycopg
import pytest

from tests.cli.kit import windlass
from windlass import Windlass
from windlass.demo.crew import Killed
from windlass.demo.data import Data, Record, generate
from windlass.demo.mission import serving
from windlass.demo.proof import checks, look, resume_of
from windlass.demo.table import SCHEMA, TABLE, OnSQLite, Row, at_path, insert

COMMAND = (sys.executable, "-m", "windlass", "demo", "--size", "1MiB")
KILLED = Killed(part=1, worker="7", process=40, label="w-1", checkpoint=30)


def play(place: Path, *arguments: str, **environ: str) -> Any:
    """Run the demo as a program, with a directory of its own for temporary files; it must be empty then."""
    temporary = place / "temporary"
    temporary.mkdir()
    ended = subprocess.run(
        [*COMMAND, "--json", *arguments],
        env={**os.environ, **environ, "TMPDIR": str(temporary)},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    assert not list(temporary.iterdir())
    return json.loads(ended.stdout)


def check_report(report: Any) -> None:
    assert report["ok"]
    assert report["state"] == "succeeded"
    assert (report["parts"], report["workers"]) == (12, 3)
    assert all(check["ok"] for check in report["checks"])
    killed, resumed = report["killed"], report["resumed"]
    assert 0 < killed["checkpoint"] <= resumed["at"]  # a server may still commit what a dead client had sent
    assert resumed["process"] != killed["process"]
    assert report["url"].startswith("http://127.0.0.1:")


@pytest.mark.slow
def test_on_sqlite_whatever_the_environment_says(tmp_path: Path) -> None:
    """[P5] The part of a killed worker goes on at its checkpoint. Nobody's database is touched. With --keep
    Mission Control shows it until Ctrl-C, and the files are still there then."""
    mine, temporary = tmp_path / "mine.db", tmp_path / "temporary"
    temporary.mkdir()
    urls = dict.fromkeys(("DATABASE_URL", "WINDLASS_DATABASE_URL"), f"sqlite:///{mine}")
    with subprocess.Popen(
        [*COMMAND, "--keep", "--json"],
        env={**os.environ, **urls, "TMPDIR": str(temporary)},
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as demo:
        assert demo.stderr is not None
        found = next((line for line in demo.stderr if "stays at" in line), "")
        shown = httpx.get(found.split()[4] + "api/parents").json() if found else None
        demo.send_signal(signal.SIGINT)
        out, err = demo.communicate(timeout=60)
    assert demo.returncode == 0, err
    report = json.loads(out)
    check_report(report)
    assert report["resumed"]["at"] == report["killed"]["checkpoint"]
    assert report["url"] in found
    assert "demo.load" in json.dumps(shown)
    [folder] = temporary.iterdir()
    assert report["kept"] == str(folder)
    assert str(folder) in report["database"]
    assert {"demo.db", "records.ndjson"} <= {path.name for path in folder.iterdir()}
    assert not mine.exists()


@pytest.mark.slow
def test_on_a_postgresql_database(tmp_path: Path, pg_database: str) -> None:
    """The same in a schema of its own, which is gone then."""
    check_report(play(tmp_path, "--database", pg_database))
    with psycopg.connect(pg_database) as connection:
        left = connection.execute(
            "SELECT nspname FROM pg_namespace WHERE nspname LIKE 'windlass%'"
        ).fetchall()
    assert left == []


def test_a_stop_leaves_nothing_behind(tmp_path: Path) -> None:
    """SIGTERM and Ctrl-C: the workers are gone when the command is, and so are the files."""
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(COMMAND, env=environ, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        words, _, address = demo.stdout.readline().strip().partition(": ")  # it comes first
        assert words == "Mission Control"
        assert httpx.get(address + "healthz").is_success
        assert any(line.startswith("split into") for line in demo.stdout)
        demo.send_signal(signal.SIGTERM)
        demo.communicate(timeout=60)
    assert demo.returncode == 1
    assert not list(tmp_path.iterdir())


def test_without_the_extra_there_is_no_mission_control(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "windlass.web.http.serving", raising=False)
    with serving(Windlass("sqlite:///:memory:")) as address:
        assert address is None


# -- what it refuses ------------------------------------------------------------------------------------


def test_it_keeps_off_files_that_are_not_its_own(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("mine")
    for arguments in ((), ("--reset",)):
        result = windlass("demo", "--database", f"sqlite:///{file}", *arguments)
        assert result.exit_code == 1
        assert "is no file of the demo's" in result.stderr
    assert file.read_text() == "mine"


def test_it_removes_an_earlier_demo_only_when_told(tmp_path: Path) -> None:
    file = tmp_path / "demo.db"
    asyncio.run(OnSQLite(at_path(file)).create())
    result = windlass("demo", "--database", f"sqlite:///{file}")
    assert result.exit_code == 1
    assert "--reset removes it" in result.stderr
    asyncio.run(OnSQLite(at_path(file)).prepare(reset=True))
    assert not list(tmp_path.iterdir())


def test_it_keeps_off_a_schema_that_is_not_its_own(pg_database: str) -> None:
    with psycopg.connect(pg_database, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {SCHEMA}")
    result = windlass("demo", "--database", pg_database, "--reset")
    assert result.exit_code == 1
    assert "is not the demo's" in result.stderr


@pytest.mark.parametrize(
    "arguments", [("--size", "1kB"), ("--size", "much"), ("--postgres", "--keep"), ("--timeout", "0s")]
)
def test_what_makes_no_sense_is_a_usage_error(arguments: tuple[str, ...]) -> None:
    assert windlass("demo", *arguments).exit_code == 2


# -- the data -------------------------------------------------------------------------------------------


def test_the_data_is_what_it_says(tmp_path: Path) -> None:
    path = tmp_path / "records.ndjson"
    data = generate(path, 1_000_000)
    assert 1_000_000 <= data.bytes == path.stat().st_size < 1_000_400
    records = [msgspec.json.decode(line, type=Record) for line in path.read_bytes().splitlines()]
    assert [record.id for record in records] == list(range(data.records))
    assert sum(record.amount for record in records) == data.amount


# -- the proof ------------------------------------------------------------------------------------------


@pytest.fixture
def imported(tmp_path: Path) -> Iterator[apsw.Connection]:
    """A table as a good play leaves it: part 1 was killed at record 30, and another process went on."""
    asyncio.run(OnSQLite(at_path(tmp_path / "demo.db")).create())
    connection = apsw.Connection(str(tmp_path / "demo.db"))
    rows: list[Row] = [
        (id, id // 50, 40 if 50 <= id < 80 else 41, "ada", id * 3, "2026-03-01", "") for id in range(100)
    ]
    with connection:
        asyncio.run(insert(connection, rows))
    yield connection
    connection.close()


def failed(path: Path, killed: Killed | None = KILLED) -> set[str]:
    """The names of the checks that fail."""
    data = Data(path="", bytes=0, records=100, amount=sum(id * 3 for id in range(100)))
    table = asyncio.run(look(OnSQLite(at_path(path / "demo.db"))))
    return {check.name for check in checks(table, data, killed) if not check.ok}


def test_a_good_table_passes(imported: apsw.Connection, tmp_path: Path) -> None:
    assert failed(tmp_path) == set()
    resume = resume_of(asyncio.run(look(OnSQLite(at_path(tmp_path / "demo.db")))), KILLED)
    assert resume is not None
    assert (resume.process, resume.at) == (41, 30)


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        (f"DELETE FROM {TABLE} WHERE id = 20", {"records in the table", "every record is there"}),
        (f"INSERT INTO {TABLE} SELECT * FROM {TABLE} WHERE id = 20", {"none is there twice"}),
        (f"UPDATE {TABLE} SET id = 100 WHERE id = 20", {"ids"}),
        (f"UPDATE {TABLE} SET id = 21 WHERE id = 20", {"none is there twice", "every record is there"}),
        (f"UPDATE {TABLE} SET amount = amount + 1 WHERE id = 20", {"sum of the amounts"}),
        (f"DELETE FROM {TABLE}", {"records in the table", "ids", "a worker was killed"}),
        (f"DELETE FROM {TABLE} WHERE id >= 80", {"another went on"}),
        (
            f"INSERT INTO {TABLE} SELECT id, part, 41, customer, amount, at, note FROM {TABLE} WHERE id = 60",
            {"another went on where it stopped", "none is there twice"},
        ),
    ],
)
def test_a_tampered_table_fails(
    imported: apsw.Connection, tmp_path: Path, tampering: str, found: set[str]
) -> None:
    imported.execute(tampering)
    assert found <= failed(tmp_path)


def test_a_play_without_a_kill_fails(imported: apsw.Connection, tmp_path: Path) -> None:
    assert failed(tmp_path, None) == {"a worker was killed"}
