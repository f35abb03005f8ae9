"""Plans and their cost: no statement scans the jobs, and what a claim or an admission costs does not depend
on how many jobs wait. Cost is counted in steps of SQLite's virtual machine, so that a busy computer changes
nothing."""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import windlass.store.sqlite as package
from tests.store.sqlite.kit import foreign, job, opened
from windlass.core.states import State
from windlass.store.fields import NewBudget
from windlass.store.records import JobFilter, Need, NewSchedule, Outcome, PartPlan, Plan, WorkerInfo
from windlass.store.sqlite import SQLiteStore, listing, parts, schedules
from windlass.store.sqlite.claims import MAX_SENT_AWAY
from windlass.store.sqlite.listing import MAX_GATED
from windlass.store.sqlite.schema import Statements

OPERATIONS = sorted(path.stem for path in (Path(package.__file__).parent / "sql").rglob("*.sql"))


READS_ALL = {"measures.miscounts", "moving.bound"}
"""What only an operator asks for, or what reads all jobs anyway."""


@pytest.mark.parametrize("operation", OPERATIONS)
async def test_no_statement_scans_the_jobs(tmp_path: Path, operation: str) -> None:
    """Every statement of every file compiles, and reads jobs and claims by a key or an index only."""
    path = tmp_path / "w.db"
    async with opened(path):
        connection = foreign(path)
        statements = Statements(operation)
        for name in statements:
            sql = statements[name]
            bindings = [None] * (len(re.findall(r"\?(?!\d)", sql)) or len(set(re.findall(r"\?\d+", sql))))
            plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
            scans = [step for step in plan if re.match(r"SCAN (windlass_job|j|windlass_claim)\b", step)]
            assert not scans or f"{operation}.{name}" in READS_ALL, f"{operation}.{name}: {scans}"
        connection.close()


SEARCHES = {
    "parts": "pending offer of_job end out failed parent active saved parts open first_pending",
    "parents": "load save origin",
    "deferred": "waiting_for arrived waits ended",
    "retention": "past_parents",
    "transitions": "is_bound",
    "limits": (
        "anyone_waits passes held_by drop_all drop_many drop_some any_reserved "
        "watermarks turn_since next_since count_waiting "
        "drop_slots spend_reservations suspend_reservation resume_reservation cancel_reservation "
        "reserved_tokens first_reserved"
    ),
    "waiting_lists": "first after since waiting",
    "fair_keys": "ring_next ring_first first_of_keys window",
    "outcomes": "simple succeed_places",
    "budgets": "waiting",
    "schedules": "due ahead",
    "measures": ("measured totals events_of_queue events_of_job dead dead_of_queue last_report rollup_row"),
}
"""Statements of each module that find what they need by an index."""


@pytest.mark.parametrize(
    "statement", [f"{module}.{name}" for module, names in SEARCHES.items() for name in names.split()]
)
async def test_parents_edges_and_lines_are_found_by_an_index(tmp_path: Path, statement: str) -> None:
    """[P8] [P12] [F3] Offering a part, folding its end, following edges and letting jobs through gates
    search, and sort nothing."""
    path = tmp_path / "w.db"
    operation, name = statement.split(".")
    async with opened(path):
        connection = foreign(path)
        sql = Statements(operation)[name]
        bindings = [None] * (len(re.findall(r"\?(?!\d)", sql)) or len(set(re.findall(r"\?\d+", sql))))
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
        steps = [step for step in plan if "VIRTUAL TABLE" not in step]  # the list that was given
        rests = [step for step in steps if step.startswith(("SCAN ", "USE TEMP"))]
        allowed = {
            "SCAN CONSTANT ROW", "SCAN p USING INDEX windlass_parent_active", "SCAN (subquery-1)",
            "SCAN ring", "USE TEMP B-TREE FOR count(DISTINCT)",  # of runs at a gate, which are few
        }  # fmt: skip
        assert set(rests) <= allowed, plan
        connection.close()


@pytest.mark.parametrize("statement", ["dead", "dead_of_queue"])
async def test_the_dead_are_counted_from_an_index_alone(tmp_path: Path, statement: str) -> None:
    """[O4] Their rows hold their tracebacks, which nobody needs for that."""
    path = tmp_path / "w.db"
    async with opened(path):
        connection = foreign(path)
        sql = Statements("measures")[statement]
        bindings = (1,) if statement == "dead" else ("q", 1)
        plan = [str(row[3]) for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", bindings)]
        assert any(step.startswith("SEARCH j USING COVERING INDEX windlass_job_cause") for step in plan), plan
        connection.close()


async def test_the_end_of_a_part_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    """[P8] Its fold into the parent, and the offer of the next one."""
    costs = []
    for size in (50, 20_000):
        async with opened(tmp_path / f"{size}.db") as store:
            await store.register(WorkerInfo(id=1))
            await store.enqueue([job(chunked=True)])
            (claim,) = await store.claim(1, ["default"], 1)
            await store.split(1, 1, claim.jobs[0], Plan(parts=[PartPlan("0", 1)] * size, parallel=4))
            claims = await store.claim(1, ["default"], 2)
            first, second = (Outcome(job=claimed) for claim in claims for claimed in claim.jobs)
            await store.finish(1, 2, [first])
            costs.append(await cost(store, partial(store.finish, 1, 3, [second])))
    assert costs[1] < 1.2 * costs[0] + 50


@pytest.mark.parametrize("statement", ["out", "failed", "saved", "open"])
async def test_of_many_parts_only_the_open_ones_are_read(tmp_path: Path, statement: str) -> None:
    """[P10] Most parts have succeeded, or were not offered yet."""
    path = tmp_path / "w.db"
    async with opened(path):
        connection = foreign(path)
        plan = [
            str(r[3])
            for r in connection.execute(f"EXPLAIN QUERY PLAN {Statements('parts')[statement]}", (1,))
        ]
        assert any("windlass_part_open (parent=? AND state=?)" in step for step in plan), plan
        connection.close()


async def read_cost(path: Path, read: Callable[[Any], object]) -> int:
    """How many steps of the virtual machine a read takes."""
    steps = 0

    def note() -> bool:
        nonlocal steps
        steps += 1
        return False

    connection = foreign(path)
    connection.set_progress_handler(note, 1)
    read(connection)
    connection.close()
    return steps


async def test_reads_cost_the_same_beside_whatever_lies_around(tmp_path: Path) -> None:
    """[M1] [K4] [P10] Depths beside held jobs, what is due beside schedules that are not, and a parent and
    the states of its parts beside parts that nobody has asked for."""
    costs: list[list[int]] = []
    for n in (100, 5_000):
        path = tmp_path / f"{n}.db"
        async with opened(path) as store:
            await store.register(WorkerInfo(id=1))
            await store.enqueue([job(concurrency_key="k", queue="held") for _ in range(n)])
            await store.enqueue([job(fair_key="f", queue="fair") for _ in range(50)])
            for number in range(n // 10):
                await store.seed_schedule(NewSchedule(name=f"s{number}", cron="* * * * *", task="t"), 9e9)
            await store.enqueue([job(chunked=True)])
            (claim,) = await store.claim(1, ["default"], 1)
            parent = claim.jobs[0]
            await store.split(1, 1, parent, Plan(parts=[PartPlan("0", 1)] * n, parallel=4))
            depths = await store.depth()
            assert (depths["held"].ready, depths["held"].free) == (n, 1)
            assert (depths["fair"].ready, depths["fair"].free) == (50, 50)
            calls: list[Callable[[Any], object]] = [
                partial(listing.depth, now=0.0),
                partial(schedules.due, now=0.0),
                partial(parts.parent, id=parent.id),
                partial(parts.part_states, parent=parent.id),
            ]
            costs.append([await read_cost(path, call) for call in calls])
    few, many = costs
    assert many[0] < few[0] + 30 * MAX_GATED  # so many jobs at gates are looked at
    assert all(more < 1.2 * less + 50 for less, more in zip(few[1:], many[1:], strict=True)), costs


async def test_who_serves_many_queues_pays_for_those_that_have_jobs(tmp_path: Path) -> None:
    """[C2] A claim in vain, and one that finds a job, of fifty queues and of two thousand."""
    costs: list[list[int]] = []
    for n in (50, 2_000):
        async with opened(tmp_path / f"{n}.db") as store:
            await store.register(WorkerInfo(id=1))
            names = [f"q{number}" for number in range(n)]
            await store.enqueue([job(queue=name) for name in names])
            while claims := await store.claim(1, names, 1000):
                ends = [Outcome(job=each) for claim in claims for each in claim.jobs]
                await store.finish(1, claims[0].id, ends)
            mine = [await cost(store, partial(store.claim, 1, names, 10))]
            await store.enqueue([job(queue="q7"), job(queue="not served")])
            mine.append(await cost(store, partial(store.claim, 1, names, 10)))
            shared = partial(store.claim, 1, dict.fromkeys(names, 10), 10, peers=dict.fromkeys(names, 2))
            mine.append(await cost(store, shared))
            assert [claim.queue for claim in await store.claim(1, ["q7", *names], 10)] == []
            costs.append(mine)
    assert all(many < 1.2 * few + 50 for few, many in zip(*costs, strict=True)), costs


async def test_jobs_that_nobody_waits_for_cost_nothing_more(tmp_path: Path) -> None:
    """[P12] Beside ten thousand edges plain jobs are still ended together, in one statement."""
    costs = []
    for edges in (0, 10_000):
        async with opened(tmp_path / f"{edges}.db") as store:
            await store.register(WorkerInfo(id=1))
            (first,) = await store.enqueue([job(queue="other")])
            await store.enqueue([job(after=(first.id,)) for _ in range(edges)])
            await store.enqueue([job() for _ in range(100)])
            (claim,) = await store.claim(1, ["default"], 100)
            outcomes = [Outcome(job=claimed) for claimed in claim.jobs]
            costs.append(await cost(store, partial(store.finish, 1, 1, outcomes)))
    assert costs[1] < 1.1 * costs[0] + 20


async def test_the_end_of_a_job_of_a_group_costs_the_same_however_many_there_are(tmp_path: Path) -> None:
    """[W4] To see whether the group still waits for any takes one edge, not all of them."""
    costs = []
    for members in (100, 10_000):
        async with opened(tmp_path / f"{members}.db") as store:
            await store.register(WorkerInfo(id=1))
            (group,) = await store.enqueue([job(group_end=True, otherwise="run")])
            await store.enqueue_in_group(group.id, [job() for _ in range(members)])
            (claim,) = await store.claim(1, ["default"], 50)
            outcomes = [Outcome(job=claimed) for claimed in claim.jobs]
            costs.append(await cost(store, partial(store.finish, 1, 1, outcomes)))
    assert costs[1] < 1.1 * costs[0] + 20


async def cost(store: SQLiteStore, call: Callable[[], Any]) -> int:
    """How many steps of the virtual machine the store's writer takes for one call."""
    steps = 0

    def note() -> bool:
        nonlocal steps
        steps += 1
        return False

    await store.database.write(lambda tx: tx.connection.set_progress_handler(note, 1))
    steps = 0
    await call()
    taken = steps
    await store.database.write(lambda tx: tx.connection.set_progress_handler(None))
    return taken


async def test_a_claim_costs_the_same_however_many_wait(tmp_path: Path) -> None:
    """[fault 13] Ten jobs out of a hundred, and out of a hundred thousand with a paused queue beside them."""
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job() for _ in range(100)])
        few = await cost(store, lambda: store.claim(1, ["default"], 10))
        await store.enqueue([job() for _ in range(100_000)])
        await store.enqueue([job(queue="paused") for _ in range(10_000)])
        await store.set_queue("paused", {"paused": True})
        many = await cost(store, lambda: store.claim(1, ["default", "paused"], 10))
        assert many < 1.5 * few + 200


async def test_finishing_does_not_grow_with_the_history(tmp_path: Path) -> None:
    async with opened(tmp_path / "w.db") as store:
        await store.register(WorkerInfo(id=1))
        await store.enqueue([job() for _ in range(20_010)])
        costs = []
        for flush, size in enumerate((10, 10_000, 10), 1):
            (claim,) = await store.claim(1, ["default"], size)
            outcomes = [Outcome(job=job) for job in claim.jobs]
            costs.append(await cost(store, partial(store.finish, 1, flush, outcomes)))
        assert costs[2] < 1.2 * costs[0] + 50


async def test_a_fair_key_with_very_many_jobs_delays_nobody(tmp_path: Path) -> None:
    """[C3] One key holds a hundred thousand jobs; the first job of a newcomer is in the next round, and the
    round costs what it would cost beside a hundred: with its enqueue, with a claim and with promotion."""
    costs: list[list[int]] = []
    for crowd in (100, 100_000):
        async with opened(tmp_path / f"{crowd}.db") as store:
            await store.set_queue("default", {"window": 4})
            await store.enqueue([job(fair_key="crowd") for _ in range(crowd)])
            await store.register(WorkerInfo(id=1))
            costs.append([])
            new = [job("a", fair_key="a"), job("z", fair_key="z")]
            costs[-1].append(await cost(store, partial(store.enqueue, new)))
            costs[-1].append(await cost(store, partial(store.claim, 1, ["default"], 4)))
            (claim,) = await store.claim(1, ["default"], 4)
            assert [job.options.fair_key for job in claim.jobs] == ["z", "a", "crowd", "crowd"]
            await store.set_queue("default", {"window": 20})
            costs[-1].append(await cost(store, store.promote))
    for few, many in zip(*costs, strict=True):
        assert many < 1.5 * few + 200


LINES: dict[str, dict[str, Any]] = {
    "key": {"concurrency_key": "k"},
    "order": {"ordering_key": "k"},
    "task": {"task_limit": 1},
    "budget": {},
}


@pytest.mark.parametrize("kind", LINES)
async def test_a_long_line_slows_nobody(tmp_path: Path, kind: str) -> None:
    """[F3] [fault 13] Thousands wait at one gate: what it costs to join them, to pass them by, to free a
    place and to look for one does not depend on how many they are."""
    needs = {"t": [Need("b")]} if kind == "budget" else {}
    costs: list[list[int]] = []
    for crowd in (100, 10_000):
        async with opened(tmp_path / f"{crowd}.db") as store:
            await store.register(WorkerInfo(id=1))
            await store.declare_budget(NewBudget(name="b", rate=1e-6, burst=1))
            await store.enqueue([job(**LINES[kind]) for _ in range(crowd)])
            ((running,),) = [claim.jobs for claim in await store.claim(1, ["default"], 1, needs)]
            for _ in range(crowd // MAX_SENT_AWAY + 1):
                assert await store.claim(1, ["default"], 100, needs) == []
            (gate,) = await store.gates()
            assert gate.waiting == crowd - 1
            calls: list[Callable[[], Any]] = [
                partial(store.enqueue, [job(**LINES[kind])]),
                partial(store.enqueue, [job("other")]),
                partial(store.claim, 1, ["default"], 2, needs),
                store.promote,
                partial(store.finish, 1, 1, [Outcome(job=running)]),
            ]
            costs.append([await cost(store, call) for call in calls])
    assert all(many < 1.3 * few + 200 for few, many in zip(*costs, strict=True)), costs


async def test_plain_jobs_pay_nothing_for_gates(tmp_path: Path) -> None:
    """[F3] Beside thousands that wait in lines they are enqueued, claimed and ended as before."""
    costs: list[list[int]] = []
    for crowd in (0, 5000):
        async with opened(tmp_path / f"{crowd}.db") as store:
            await store.register(WorkerInfo(id=1))
            if crowd:
                await store.enqueue([job(ordering_key=str(n // 2), queue="lines") for n in range(crowd)])
                await store.enqueue([job(concurrency_key="k", queue="lines") for _ in range(crowd)])
            mine = [await cost(store, partial(store.enqueue, [job() for _ in range(100)]))]
            (claim,) = await store.claim(1, ["default"], 50)
            ends = [Outcome(job=claimed) for claimed in claim.jobs]
            mine.append(await cost(store, partial(store.finish, 1, 1, ends)))
            mine.append(await cost(store, partial(store.claim, 1, ["default"], 50)))
            costs.append(mine)
    assert all(many < 1.1 * few + 20 for few, many in zip(*costs, strict=True)), costs


async def test_a_page_of_a_rare_state_is_found_without_a_walk(tmp_path: Path) -> None:
    """Twenty thousand ready jobs newer than the one that is scheduled: one page finds it."""
    async with opened(tmp_path / "w.db") as store:
        (receipt,) = await store.enqueue([job(delay=60)])
        await store.enqueue([job() for _ in range(20_000)])
        page = await store.jobs(JobFilter(state=State.SCHEDULED))
        assert [found.id for found in page.jobs] == [receipt.id]
        # A filter without an index ends early with a cursor, and gets there in the end.
        page = await store.jobs(JobFilter(task="nobody"))
        assert page.jobs == []
        assert page.cursor is not None
