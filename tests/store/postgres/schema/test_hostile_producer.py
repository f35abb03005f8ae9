"""A producer that calls what it may call with anything: it learns nothing of rows that it may not read, and
stops nobody's work [rule 11]."""

import math
import random
from collections.abc import Callable
from typing import Final

import asyncpg
import pytest

from tests.store.postgres.kit import Base, Session
from windlass.store.fields import NewBudget

MakeRole = Callable[[str | None], str]
CALLS: Final = 150
"""Of each function."""
CRASHES: Final = frozenset({"23", "57", "XX"})
"""Classes of errors: a broken constraint, a call without end, a bug."""
SURFACE = """
SELECT p.proname AS name, array(SELECT format_type(t, NULL) FROM unnest(p.proargtypes) AS t) AS types
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
 WHERE n.nspname = 'windlass' AND has_function_privilege(current_user, p.oid, 'EXECUTE') ORDER BY 1
"""
BY_TYPE: Final[dict[str, list[str]]] = {
    "boolean": ["true", "false"],
    "smallint": ["-32768", "-1", "0", "2", "3", "4", "32767"],
    "integer": ["-2147483648", "-1", "0", "1", "5", "2147483647"],
    "bigint": ["-9223372036854775808", "-1", "0", "1", "{job}", "9000000000000000000"],
    "double precision": ["'NaN'", "'Infinity'", "'-Infinity'", "-1", "0", "0.5", "1e300", "4e9"],
    "text": ["''", "'b'", "'none'", "'full'", "'replace'", "'{queue}'", "'queue:{queue}'", "'{{}}'", "'[]'",
             "'{{\"unique_key\": \"k\"}}'", "'secret'", "repeat('x', 300)", "e'\\x01\\U0001F600'",
             "repeat('[', 5000)"],
    "json": ["'{{}}'", "'[]'", "'null'", "'1e999'", "'{{\"a\": [1]}}'"],
    "interval": ["'-1 day'", "'0'", "'1 s'", "'100000 years'"],
    "timestamp with time zone": ["'-infinity'", "'infinity'", "'now'", "'294276-12-31'"],
}  # fmt: skip


SENSIBLE: Final = {
    "smallint": "2", "integer": "1", "bigint": "{job}", "double precision": "0", "json": "'{{}}'",
    "interval": "'0'", "timestamp with time zone": "'now'",
}  # fmt: skip


def value(dice: random.Random, kind: str) -> str:
    """An argument of this type, in SQL: often one that makes sense, so that the others are looked at, too.
    Arrays have one or two dimensions, also with NULL in them."""
    if dice.random() < 0.1:
        return f"NULL::{kind}"
    if dice.random() < 0.5 and not kind.endswith("[]"):
        return f"{SENSIBLE.get(kind) or dice.choice(BY_TYPE[kind][:8])}::{kind}"
    if kind.endswith("[]"):
        members = ", ".join(value(dice, kind[:-2]) for _ in range(dice.randint(0, 3)))
        inner = f"ARRAY[{members}]::{kind}"
        return f"ARRAY[{inner}]" if dice.random() < 0.05 else inner
    return f"{dice.choice(BY_TYPE[kind])}::{kind}"


async def refused(session: Session, call: str) -> asyncpg.PostgresError | None:
    """The error of a call in a transaction of its own, if it has one."""
    try:
        await session.run(call)
    except asyncpg.PostgresError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(3))
async def test_a_producer_learns_and_stops_nothing(alone: Base, role: MakeRole, seed: int) -> None:
    """[rule 11] A constraint that a call breaks would show the row, which belongs to others."""
    dice = random.Random(seed)
    store = await alone.store()
    await store.set_queue(alone.queue, {"max_depth": 1_000_000})
    await store.declare_budget(NewBudget(name="b", rate=10.0, burst=10, cap=10**15))
    producer = await alone.session(role("producer"))
    job = await producer.enqueue()
    await producer.run("SET statement_timeout = '30s'")
    for function in await producer.rows(SURFACE):
        for _ in range(CALLS):
            arguments = ", ".join(value(dice, kind) for kind in function["types"])
            call = f"SELECT windlass.{function['name']}({arguments})".format(job=job, queue=alone.queue)
            error = await refused(producer, call)
            if error is not None:
                assert error.sqlstate[:2] not in CRASHES, f"{call}: {error}"
                assert "Failing row" not in str(error.as_dict()), f"{call}: {error}"
    await store.set_budget("b", {"rate": 10.0, "burst": 10})
    (budget,) = await store.budgets()
    assert math.isfinite(budget.tokens)
    assert (budget.paused_for, (await store.take("b", 1)).wait <= 0.1) == (0, True)
    assert await producer.enqueue() > job
