"""Roles that lack a right are told in a sentence which one, and who gives it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from tests.cli.kit import Desk
from tests.store.postgres.conftest import role
from tests.web.kit import visiting
from windlass import Windlass
from windlass.errors import ConfigurationError, StoreForbidden
from windlass.store.postgres import PostgresStore

__all__ = ["role"]

Role = Callable[[str | None], str]
READING = ("queues", "jobs", "workers", "events", "budgets", "gates", "tasks", "parents")


def test_a_role_without_any_right(pg_dsn: str, role: Role) -> None:
    """Each of these was a traceback."""
    desk = Desk(role(None))
    for command in (*READING, "doctor"):
        done = desk.run(command)
        assert done.exit_code == 1
        assert "permission denied for schema windlass" in done.output
        assert "windlass.allow('ROLE'" in done.output


def test_migrate_by_a_role_that_may_not_create(pg_database: str, pg_dsn: str, role: Role) -> None:
    url = role("worker")
    empty = f"{url.rpartition('/')[0]}/{pg_database.rpartition('/')[2]}"
    assert "may CREATE in the database" in Desk(empty).refused("migrate")
    assert "owns the schema" in Desk(url).refused("migrate")


def test_a_producer_does_not_look(pg_dsn: str, role: Role) -> None:
    """It enqueues; what it may not see is said, by the doctor look by look."""
    desk = Desk(role("producer"))
    desk.ok("enqueue", "mail.send", "--queue", "mail")
    for command in READING:
        assert "permission denied" in desk.refused(command)
    found = {each["name"]: each for each in desk.json("doctor")["findings"]}
    assert found["schema"]["level"] == "ok"
    assert "may not see it" in found["flow"]["text"]


def test_a_worker_whose_role_may_only_read_leaves(pg_dsn: str, role: Role, tmp_path: Path) -> None:
    """It said "cannot register" for ever. To start its processes again would not help either."""
    Desk(pg_dsn).ok("queue", "set", "mail", "--max-workers", "4")
    (tmp_path / "shop.py").write_text("import windlass\n\napp = windlass.Windlass()\n")
    url = role("reader")
    done = subprocess.run(
        [sys.executable, "-m", "windlass", "worker", "shop:app", "-q", "mail", "--processes", "2"],
        cwd=tmp_path,
        env={**os.environ, "WINDLASS_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    name = urlsplit(url).username
    last = done.stderr.splitlines()[-1]
    assert last.startswith(f"Error: role {name} may not run jobs here: permission denied for ")
    assert last.endswith(f"SELECT windlass.allow('{name}', 'worker')")
    assert "a new process starts" not in done.stderr
    assert "Traceback" not in done.stderr


async def test_a_reader_without_pg_read_all_stats(pg_dsn: str, role: Role) -> None:
    """It sees its own sessions alone in pg_stat_activity: that is enough for every page and look."""
    url = role("reader")
    desk = Desk(url)
    for command in (*READING, "doctor"):
        done = await asyncio.to_thread(desk.run, command)
        assert done.exit_code == 0, done.output
    with Windlass(url) as app:
        async with app, visiting(app) as visitor:
            for path in ("/", "/operations", "/queues", "/jobs", "/workers", "/events", "/metrics"):
                assert (await visitor.get(path)).status_code == 200, path
            answer = await visitor.put("/api/queues/mail", json={})
            assert (answer.status_code, answer.json()["error"]["code"]) == (409, "store_forbidden")
            assert "windlass.allow" in answer.json()["error"]["message"]


async def test_row_security_is_refused_before_it_hides_jobs(pg_dsn: str, role: Role) -> None:
    """A worker would find every queue empty, and say nothing."""
    url = role("worker")
    with psycopg.connect(pg_dsn, autocommit=True) as owner:
        owner.execute("ALTER TABLE windlass.lane ENABLE ROW LEVEL SECURITY")
    with pytest.raises(
        ConfigurationError, match=r"hides rows of windlass\.lane .*DISABLE ROW LEVEL SECURITY"
    ):
        await PostgresStore(url).open()
    with psycopg.connect(pg_dsn, autocommit=True) as owner:
        owner.execute("ALTER TABLE windlass.lane DISABLE ROW LEVEL SECURITY")
    store = PostgresStore(url)
    await store.open()
    await store.close()


async def test_a_right_that_is_taken_away_is_said(pg_dsn: str, role: Role) -> None:
    url = role("worker")
    store = PostgresStore(url)
    await store.open()
    try:
        with psycopg.connect(pg_dsn, autocommit=True) as owner:
            name = url.partition("://")[2].partition(":")[0]
            owner.execute(f"REVOKE EXECUTE ON FUNCTION windlass.heartbeat FROM {name}".encode())
        with pytest.raises(StoreForbidden, match="permission denied for function heartbeat"):
            await store.heartbeat(7)
    finally:
        await store.close()
