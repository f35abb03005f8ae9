"""What windlass.import_jobs refuses: one job that nobody could read stopped every page that lists it."""

import json
from typing import Any

import asyncpg
import pytest

from tests.web.kit import visiting
from windlass import Windlass

IMPORT = "SELECT job, status FROM windlass.import_jobs('old', $1)"
DEAD: dict[str, Any] = {"key": "1", "task": "t", "state": "dead"}
MALFORMED: list[dict[str, Any]] = [
    {"errors": 5}, {"errors": {"type": "E"}}, {"errors": [[]]}, {"errors": ["x"]},
    {"errors": [{"at": 1e300}]}, {"errors": [{"at": "NaN"}]}, {"enqueued_at": "infinity"},
    {"ended_at": "-infinity"}, {"ended_at": "12000-01-01"}, {"steps": [{"result": 1}]}, {"steps": {}},
    {"steps": [{"name": "s", "until": "infinity"}]},
    {"stream": [{"position": 1}]}, {"waits": [{"name": "wait:x"}]}, {"signals": [{"value": 1}]},
    {"signals": [{"name": "x", "at": "infinity"}]}, {"checkpoint": []}, {"checkpoint": {"done": 1}},
    {"checkpoint": {"data": {}, "at": 1e300}},
]  # fmt: skip


@pytest.mark.parametrize("past", MALFORMED, ids=json.dumps)
@pytest.mark.parametrize("state", ["dead", "ready"])
async def test_a_past_that_nobody_could_read_is_refused(
    pg_dsn: str, state: str, past: dict[str, Any]
) -> None:
    """[E4] With the field, and nothing is added."""
    connection = await asyncpg.connect(pg_dsn)
    try:
        with pytest.raises(asyncpg.PostgresError, match=f"job '1' has malformed {min(past)}") as refused:
            await connection.fetch(IMPORT, json.dumps([{**DEAD, "state": state, **past}]))
        assert refused.value.sqlstate == "WL005"
        assert await connection.fetchval("SELECT count(*) FROM windlass.imported") == 0
    finally:
        await connection.close()


async def test_what_errors_leave_out_is_made_up(pg_dsn: str) -> None:
    """[E4] Such a dead letter is listed like any other."""
    connection = await asyncpg.connect(pg_dsn)
    errors = [{"message": "odd"}, {"type": "E", "at": 1.5e9, "attempt": 2}, {}]
    (row,) = await connection.fetch(IMPORT, json.dumps([{**DEAD, "errors": errors}]))
    await connection.close()
    with Windlass(pg_dsn) as app:
        async with visiting(app) as visitor:
            for page in ("/dead", "/jobs", f"/jobs/{row['job']}", "/api/jobs"):
                assert (await visitor.get(page)).status_code == 200, page
            job = (await visitor.get(f"/api/jobs/{row['job']}")).json()
    assert [(error["type"], error["message"]) for error in job["errors"]] == [
        ("", "odd"),
        ("E", ""),
        ("", ""),
    ]
