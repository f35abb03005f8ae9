"""Bad input through SQL: a typed error, and nothing written [E4]."""

import json
from typing import Any

import asyncpg
import pytest

from tests.store.postgres.kit import Base
from windlass.store.fields import Field
from windlass.store.records import CARRIED, JOB_OPTIONS

NOTHING = """
SELECT (SELECT count(*) FROM windlass.ready WHERE lane = $1)
     + (SELECT count(*) FROM windlass.deferred WHERE queue = $2)
     + (SELECT count(*) FROM windlass.held WHERE queue = $2)
     + (SELECT count(*) FROM windlass.idempotency WHERE key = $2)
     + (SELECT count(*) FROM windlass.unique_key WHERE key = $2)
"""
BIG = "'{\"a\": \"' || repeat('x', 1048576) || '\"}'"
KEYED = "unique_key => current_setting('test.queue'), idempotency_key => current_setting('test.queue')"

ONE = [
    ("'Upper'", "", "WL005"), ("''", "", "WL005"), ("NULL", "", "WL005"), ("'a b'", "", "WL005"),
    ("repeat('a', 65)", "", "WL005"), ("E'a\\n'", "", "WL005"),
    ("'t'", "queue => 'Bad'", "WL005"), ("'t'", "queue => ''", "WL005"), ("'t'", "queue => NULL", "WL005"),
    ("'t'", "priority => 'soon'", "WL005"), ("'t'", "priority => NULL", "WL005"),
    ("'t'", "args => '1'", "WL005"), ("'t'", "args => '\"x\"'", "WL005"), ("'t'", "args => 'null'", "WL005"),
    ("'t'", "args => NULL", "WL005"), ("'t'", "args => '{\"a\": \"\\u0000\"}'", "WL005"),
    ("'t'", f"args => ({BIG})::json", "WL007"),
    ("'t'", "max_attempts => 0", "WL005"), ("'t'", "max_attempts => 1001", "WL005"),
    ("'t'", "run_at => '1969-12-31'", "WL005"), ("'t'", "run_at => 'infinity'", "WL005"),
    ("'t'", "delay => '-1 s'", "WL005"), ("'t'", "delay => '101 years'", "WL005"),
    ("'t'", "otherwise => 'run_only'", "WL005"),
    ("'t'", "after => '{}', otherwise => 'run_only'", "WL005"),
    ("'t'", "timeout => '0 s'", "WL005"), ("'t'", "on_conflict => 'merge'", "WL005"),
    ("'t'", "trace => ''", "WL005"), ("'t'", "trace => repeat('é', 256)", "WL005"),
    ("'t'", "fair_key => ''", "WL005"), ("'t'", "ordering_key => repeat('x', 256)", "WL005"),
    ("'t'", "headers => '[1]'", "WL005"), ("'t'", "headers => '{\"a\": 1}'", "WL005"),
    ("'t'", "headers => '{\"a\": \"\\u0000\"}'", "22P05"), ("'t'", "tags => ARRAY['a', NULL]", "WL005"),
]  # fmt: skip
"""Task, further arguments of windlass.enqueue, the error code."""

MANY = [
    ("'q'", "9", "'{t}'", "'{\"{}\"}'", "NULL", "WL005"),
    ("'q'", "NULL", "'{t}'", "'{\"{}\"}'", "NULL", "WL005"),
    ("'q'", "2", "'{}'", "'{\"{}\"}'", "NULL", "WL005"),
    ("'q'", "2", "NULL", "'{\"{}\"}'", "NULL", "WL005"),
    ("'q'", "2", "'{t,u}'", "'{\"{}\",\"{}\",\"{}\"}'", "NULL", "WL005"),
    ("'q'", "2", "'{t,u,v}'", "'{\"{}\",\"{}\"}'", "NULL", "WL005"),
    ("'q'", "2", "'{t}'", "'{\"{}\",NULL}'", "NULL", "WL005"),
    ("'q'", "2", "'{t}'", "ARRAY['{', '{}']", "NULL", "22P02"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{']", "22P02"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['[1]']", "WL005"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{\"max_attempts\": \"x\"}']", "WL005"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{\"max_attempts\": 1001}']", "WL005"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{\"tags\": [1]}']", "WL005"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{\"trace\": \"\\u0000\"}']", "22P05"),
    ("'q'", "2", "'{t}'", "ARRAY['{}']", "ARRAY['{}', '{}']", "WL005"),
]  # fmt: skip
"""Arguments of windlass.enqueue_many, the error code."""


async def written(base: Base, lane: int) -> Any:
    """How much there is of the test's queue."""
    return await base.look.value(NOTHING, lane, base.queue)


@pytest.mark.parametrize(("task", "more", "code"), ONE)
@pytest.mark.parametrize("keyed", [False, True])
async def test_enqueue_refuses_it(base: Base, task: str, more: str, code: str, keyed: bool) -> None:
    """[E4] Plain or with keys, which go another way."""
    lane = await base.lane()
    await base.look.run(f"SET test.queue = '{base.queue}'")
    arguments = [task]
    if "queue" not in more:
        arguments.append(f"queue => '{base.queue}'")
    arguments += [part for part in (more, KEYED if keyed else "") if part]
    with pytest.raises(asyncpg.PostgresError) as refused:
        await base.look.run(f"SELECT windlass.enqueue({', '.join(arguments)})")
    assert (refused.value.sqlstate, await written(base, lane)) == (code, 0)


@pytest.mark.parametrize("case", MANY)
@pytest.mark.parametrize("declared", [True, False])
async def test_enqueue_many_refuses_it(base: Base, case: tuple[str, ...], declared: bool) -> None:
    """[E4] As a whole, on the way into the lane and on the way over deferred."""
    lane = await base.lane() if declared else 0
    queue, priority, tasks, payloads, options, code = case
    with pytest.raises(asyncpg.PostgresError) as refused:
        await base.look.run(
            f"SELECT windlass.enqueue_many({queue.replace('q', base.queue)}, {priority}::smallint, "
            f"{tasks}::text[], {payloads}::text[], {options}::text[])"
        )
    assert (refused.value.sqlstate, await written(base, lane)) == (code, 0)


@pytest.mark.parametrize("field", CARRIED, ids=lambda field: field.name)
async def test_an_option_of_the_wrong_type_is_refused_with_what_to_write(base: Base, field: Field) -> None:
    """[E4]"""
    await base.lane()
    with pytest.raises(asyncpg.PostgresError, match=f"the option {field.kept} is malformed") as refused:
        await base.look.value(
            "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{\"{}\"}', ARRAY[$2])",
            base.queue,
            json.dumps({field.kept: {"a": [1]}}),
        )
    assert getattr(refused.value, "hint", None) == f"Write {field.allowed}."


@pytest.mark.parametrize("key", ["unique_key", "idempotency_key"])
async def test_a_key_is_as_long_as_python_lets_it_be(base: Base, key: str) -> None:
    """[E4] 255 characters, whatever their bytes."""
    for text in ("", "é" * 256):
        with pytest.raises(asyncpg.PostgresError, match="a text of 1 to 255 characters"):
            await base.look.enqueue(**{key: text})
    assert await base.look.enqueue(**{key: "é" * 255})


async def test_enqueue_takes_every_option_of_a_job(base: Base) -> None:
    """[E2] But for a connection, and what two others say in one word."""
    names = "SELECT proargnames FROM pg_proc WHERE oid = 'windlass.enqueue'::regproc"
    options = {field.kept for field in JOB_OPTIONS.values()} - {"connection", "debounce"}
    assert set(await base.look.value(names)) == {"task", "args"} | options
