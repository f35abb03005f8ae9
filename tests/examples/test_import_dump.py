"""examples/import_dump: every line of a dump is in the table once, and the later version of it."""

import importlib
from pathlib import Path

import pytest

import examples.import_dump.tasks as importing
from examples.import_dump.__main__ import make_dump
from examples.stage import transaction
from tests.examples.running import run_example


def test_p1_a_dump_is_imported_in_parts(database: dict[str, str]) -> None:
    lines = run_example("import_dump", "--make", "3000", IMPORT_CHUNK="64KiB", **database)
    found = dict(line.split(maxsplit=1) for line in lines if not line.startswith("progress"))
    assert found["made"].startswith("3,300 lines")
    assert found["imported"].startswith("3,300 records in 5 parts")
    assert found["table"] == "3,000 products, 300 of them in version 2"


def test_p6_importing_a_dump_again_changes_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WINDLASS_DATABASE_URL", f"sqlite:///{tmp_path}/jobs.db")
    importlib.reload(importing)  # for a database of its own
    dump = tmp_path / "dump.ndjson"
    assert make_dump(dump, 50) == 55
    with importing.app as app:
        app.migrate()
        with transaction(app) as connection:
            connection.execute(importing.TABLE)
        for _ in range(2):
            job = importing.load.enqueue(str(dump))
            app.run_until_idle()
            assert job.result(timeout=5) == importing.Imported(products=50, updated=5)
