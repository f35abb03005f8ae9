"""What windlass.import_jobs refuses: one job that nobody could read stopped every page that lists it."""

import json
from typing import Any

import asyncpg
import pytest

from tests.web.kit import visiting
from windlass import Windlass

IMPORT = "SELECT job, status FROM windlass.import_jobs('old', $1)"
DEAD: dict[str, Any] = {"key": "1", "task": "t", "state": "dead"}
BATCH = {"position": 1, "n": 1, "run": 1, "attempt": 1}
MALFORMED: list[dict[str, Any]] = [
    {"errors": 5}, {"errors": {"type": "E"}}, {"errors": [[]]}, {"errors": ["x"]},
    {"errors": [{"at": 1e300}]}, {"errors": [{"at": "NaN"}]}, {"enqueued_at": "infinity"},
    {"ended_at": "-infinity"}, {"ended_at": "12000-01-01"}, {"steps": [{"result": 1}]}, {"steps": {}},
    {"steps": [{"name": "s", "until": "infinity"}]},
    {"stream": [{"position": 1}]}, {"stream": [{**BATCH, "events": 5}]},
    {"stream": [{**BATCH, "events": []}]}, {"stream": [{**BATCH, "events": "x"}]},
    {"waits": [{"name": "wait:x"}]}, {"signals": [{"value": 1}]},
    {"signals": [{"name": "x", "at": "infinity"}]}, {"checkpoint": []}, {"checkpoint": {"done": 1}},
    {"checkpoint": {"data": {}, "at": 1e300}}, {"signal_keys": [{"key": "k"}]},
    {"signal_keys": [{"key": "k" * 256, "until": "2100-01-01"}]},
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


@pytest.mark.parametrize(
    "past",
    [{"errors": [{"at": "soon"}]}, {"errors": [{"attempt": 10**9}]}, {"run_at": "soon"}, {"attempt": "many"},
     {"steps": [{"name": "s", "at": "soon"}]},
     {"waits": [{"name": "w", "signal": "s", "until": "2024-13-01"}]},
     {"stream": [{**BATCH, "events": [1], "position": "first"}]},
     {"checkpoint": {"data": {}, "done": "all"}}],
    ids=json.dumps,
)  # fmt: skip
async def test_a_value_of_another_kind_is_refused(pg_dsn: str, past: dict[str, Any]) -> None:
    """[E4] In a sentence with the value, not by the server's own error for it."""
    connection = await asyncpg.connect(pg_dsn)
    try:
        with pytest.raises(asyncpg.PostgresError, match=" has a value that cannot be read: ") as refused:
            await connection.fetch(IMPORT, json.dumps([{**DEAD, "state": "ready", **past}]))
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


@pytest.mark.parametrize(
    "rerun",
    [5, [], {}, {"task": "T!"}, {"payload": "["}, {"payload": "5"}, {"options": "[]"},
     {"options": '{"timeout": "x"}'}, {"priority": None}, {"priority": 9}, {"run_at": "infinity"},
     {"queue": "Q!"}],
    ids=json.dumps,
)  # fmt: skip
async def test_a_rerun_that_could_not_be_enqueued_is_refused(pg_dsn: str, rerun: Any) -> None:
    """[E4] The outcome of the job that it comes after would be refused with it, and all that come along."""
    whole = {"task": "t", "payload": "{}", "priority": 2, **rerun} if rerun and rerun != 5 else rerun
    job = {"key": "1", "task": "t", "options": {"unique_key": "k"}, "rerun": whole}
    connection = await asyncpg.connect(pg_dsn)
    try:
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.fetch(IMPORT, json.dumps([job]))
        assert refused.value.sqlstate in ("WL005", "WL004", "WL003")
        assert await connection.fetchval("SELECT count(*) FROM windlass.imported") == 0
    finally:
        await connection.close()


PARENT: dict[str, Any] = {
    "key": "1", "task": "t", "args": {}, "queue": "default", "priority": 2, "attempt": 1, "deaths": 0,
    "enqueued_at": "2024-01-01", "created_at": "2024-01-01", "state": "waiting", "parallel": 4,
    "tolerated": 0, "finalizer": False,
}  # fmt: skip


@pytest.mark.parametrize(
    "past",
    [
        {"enqueued_at": "infinity"}, {"created_at": "-infinity"}, {"ended_at": "12000-01-01"}, {"args": 5},
        {"task": "T!"}, {"queue": "<b>"},
    ],
    ids=json.dumps,
)  # fmt: skip
async def test_a_parent_that_nobody_could_read_is_refused(pg_dsn: str, past: dict[str, Any]) -> None:
    """[E4] It would stop the lists of parents and of jobs."""
    connection = await asyncpg.connect(pg_dsn)
    call = "SELECT status FROM windlass.import_parent('old', $1, '[]', '[]')"
    try:
        assert await connection.fetchval(call, json.dumps(PARENT)) == "imported"
        with pytest.raises(asyncpg.PostgresError) as refused:
            await connection.fetchval(call, json.dumps({**PARENT, "key": "2", **past}))
        assert refused.value.sqlstate == "WL005"
    finally:
        await connection.close()
