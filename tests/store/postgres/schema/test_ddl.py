"""`windlass sql`: the same schema by psql as by migrate."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.postgres import Server
from tests.store.postgres.kit import connect
from tests.store.postgres.schema.catalog import picture
from windlass.store.postgres import PostgresStore
from windlass.store.postgres.schema import ddl
from windlass.store.records import NewJob, WorkerInfo

SETTINGS = "SELECT version, functions, idempotency_retention, retention, size_limit FROM {}.meta"


def printed(schema: str) -> str:
    """What the command prints."""
    command = [sys.executable, "-c", "from windlass.cli import main; main()", "sql", "--schema", schema]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def psql(server: Server, dsn: str, path: Path) -> None:
    """Run a script as an administrator would."""
    subprocess.run(
        [server.psql, "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname", dsn, "--file", path],
        check=True,
        capture_output=True,
    )


@pytest.mark.parametrize("schema", ["windlass", "jobs_of_ours"])
async def test_the_printed_sql_makes_what_migrate_makes(
    pg_server: Server, pg_database: str, tmp_path: Path, schema: str
) -> None:
    """Tables, indexes, sequences, functions, rights and the stamp are the same, and a store opens on it."""
    script = tmp_path / "windlass.sql"
    script.write_text(printed(schema), encoding="utf-8")
    psql(pg_server, pg_database, script)
    store = PostgresStore(pg_database, schema)
    session = await connect(pg_database, "q")
    by_psql = await picture(session, schema)
    stamp = await session.row(SETTINGS.format(schema))
    other = pg_server.dsn(pg_server.create_database())
    migrated = PostgresStore(other, schema)
    await migrated.migrate()
    twin = await connect(other, "q")
    assert await picture(twin, schema) == by_psql
    assert await twin.row(SETTINGS.format(schema)) == stamp
    await twin.connection.close()
    pg_server.drop_database(other.rsplit("/", 1)[1])

    await store.open()
    assert (await store.migrate()).before == stamp["version"], "nothing is left to do"
    await store.register(WorkerInfo(id=1))
    await store.enqueue([NewJob(task="t", payload="{}")])
    assert len(await store.claim(1, ["default"], 1)) == 1
    await store.close()
    await session.connection.close()


def test_the_printed_sql_is_one_transaction(pg_server: Server, pg_database: str, tmp_path: Path) -> None:
    """Run twice it fails as a whole, and leaves what is there alone."""
    script = tmp_path / "windlass.sql"
    script.write_text(ddl(), encoding="utf-8")
    psql(pg_server, pg_database, script)
    with pytest.raises(subprocess.CalledProcessError) as failed:
        psql(pg_server, pg_database, script)
    assert b"already exists" in failed.value.stderr
