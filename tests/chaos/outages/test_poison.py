"""[fault 17] Poison met by a real worker: payloads that do not fit the task, tasks that nobody knows, 50 MB,
wrong types, and handlers that end or answer in ways no store can keep. Only that job suffers: the process is
the same afterwards, and the good jobs before, between and after it have run once.

What a store refuses at the door is tests/chaos/test_poison.py's business; here is what gets in.
"""

import asyncio
from pathlib import Path

import asyncpg
import pytest

from tests.chaos.figures import Figure
from tests.chaos.kit import connected, per_soak, sized, until
from tests.chaos.outages.jobs import RAISES, RETURNS
from tests.chaos.outages.kit import Host, balance, store_at, work
from windlass.core.states import State
from windlass.errors import PayloadTooLarge
from windlass.store.protocol import Store
from windlass.store.records import NewJob, Options

HUGE = '{"n": "' + "x" * (50 * 1024 * 1024) + '"}'
MISFITS = {
    "text": '{"n": "seven"}',
    "null": '{"n": null}',
    "a fraction": '{"n": 1.5}',
    "nothing": "{}",
    "too much": '{"n": 1, "m": 2}',
    "twice": '{"n": 1, "n": "b"}',
    "a list": "[1, 2, 3]",
    "a deep list": '{"n": ' + "[" * 900 + "]" * 900 + "}",
    "out of range": '{"n": 1e400}',
    "a lone surrogate": '["\\ud800"]',
    "a megabyte": '{"n": "' + "x" * 1_000_000 + '"}',
    "its own context": '{"n": 1, "ctx": {}}',
}
IN_SQL = [
    "SELECT windlass.enqueue('work.number', '{\"n\": \"seven\"}', queue => 'work')",
    "SELECT windlass.enqueue('work.number', '[[]]', queue => 'work', max_attempts => 1)",
    "SELECT windlass.enqueue('work.quick', '{\"a\": 1}', queue => 'work')",
]


@pytest.fixture(params=["postgresql", "sqlite"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database of the test's own."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'jobs.db'}"
    return str(request.getfixturevalue("pg_dsn"))


def poison() -> list[NewJob]:
    """One of each kind."""
    jobs = [work("number", payload, options=Options(max_attempts=2)) for payload in MISFITS.values()]
    jobs += [work("raises", f'{{"what": "{what}"}}', options=Options(max_attempts=1)) for what in RAISES]
    jobs += [work("returns", f'{{"what": "{what}"}}', options=Options(max_attempts=1)) for what in RETURNS]
    jobs += [work("nobody.knows.me"), NewJob(task="windlass", payload="[]", queue="work")]
    return jobs


async def ended(store: Store, jobs: list[int]) -> dict[int, State]:
    """The states of these jobs, once each is over or put off."""
    states: dict[int, State] = {}

    async def none_under_way() -> bool:
        for job in jobs:
            record = await store.job(job)
            assert record is not None
            states[job] = record.state
        return not {State.READY, State.RUNNING, State.RETRYING} & set(states.values())

    await until(none_under_way, 30.0, pause=0.1)
    return states


async def fifty_megabytes(store: Store) -> list[int]:
    """Past the checks of the app. PostgreSQL refuses it in SQL, where anybody may call; the other stores are
    reached through the app alone and take it, so there it is one more poisoned job."""
    try:
        receipts = await store.enqueue([work("number", HUGE, options=Options(max_attempts=1))])
    except PayloadTooLarge:
        return []
    return [receipt.id for receipt in receipts]


async def poisoned(url: str, folder: Path, rounds: int, figure: Figure) -> None:
    good: list[int] = []
    bad: list[int] = []
    async with store_at(url) as store, Host(folder, url) as host:
        family = host.family()
        for _ in range(rounds):
            for job in poison():
                receipts = await store.enqueue([work(), job, work()])
                good += [receipts[0].id, receipts[2].id]
                bad.append(receipts[1].id)
            bad += await fifty_megabytes(store)
            await host.runs(good, 30.0)
        states = await ended(store, bad)
        # The one that snoozes and the two that nobody knows wait, uncharged. All others are dead.
        waiting = [job for job, state in states.items() if state is State.SCHEDULED]
        assert len(waiting) == 3 * rounds
        assert {state for job, state in states.items() if job not in waiting} == {State.DEAD}
        balance(host.ran(), good)
        assert host.family() == family, f"a process died:\n{host.tail()}"
        log = host.log.read_text(encoding="utf-8", errors="replace")
        assert "the worker failed and restarts" not in log, host.tail()
        assert len(log) < 5_000_000, "the log was poisoned, too"
        figure("good jobs beside poison, each run once", len(good))
        figure("poisoned jobs", len(bad))


@sized("rounds", (1,), (per_soak(20.0),))
async def test_only_the_poisoned_job_suffers(url: str, tmp_path: Path, figure: Figure, rounds: int) -> None:
    """[E3] [O1] [O4]"""
    await asyncio.wait_for(poisoned(url, tmp_path, rounds, figure), 80.0 * rounds)


@pytest.mark.slow
async def test_poison_written_in_sql(pg_dsn: str, tmp_path: Path) -> None:
    """[E1] Through the SQL interface, where no client checks. It refuses what is too large itself."""
    async with store_at(pg_dsn) as store, Host(tmp_path, pg_dsn) as host, connected(pg_dsn) as connection:
        good: list[int] = []
        for statement in IN_SQL:
            await connection.execute(statement)
            good += [receipt.id for receipt in await store.enqueue([work()])]
        with pytest.raises(asyncpg.PostgresError, match="1 MiB"):
            await connection.execute("SELECT windlass.enqueue('work.number', $1::text::json)", HUGE)
        await host.runs(good)

        async def all_dead() -> bool:
            return (await store.depth(["work"]))["work"].dead >= 2

        await until(all_dead, 20.0)
        balance(host.ran(), good)
