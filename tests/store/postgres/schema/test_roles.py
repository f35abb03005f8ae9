"""Who may do what: every table, sequence and function of the schema, asked and tried [rule 11]."""

import asyncio
import json
from collections.abc import Callable
from datetime import timedelta

import asyncpg
import msgspec
import pytest

from tests.cli.kit import Desk
from tests.store.postgres.kit import Base, Session
from windlass.core.retry import DeathPolicy
from windlass.core.states import Kind, State
from windlass.running.sending import NewSignal
from windlass.store.fields import NewBudget
from windlass.store.postgres import PostgresStore
from windlass.store.records import (
    Checkpoint,
    Failure,
    JobFilter,
    Need,
    NewJob,
    Once,
    Options,
    Outcome,
    PartPlan,
    Plan,
    WaitRecord,
    WorkerInfo,
)

MakeRole = Callable[[str | None], str]
RELATIONS = """
SELECT c.oid::regclass::text AS name, c.relkind::text AS kind, c.oid
  FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
 WHERE n.nspname = 'windlass' AND c.relkind IN ('r', 'p', 'v', 'S') ORDER BY 1
"""
FUNCTIONS = """
SELECT p.oid, p.oid::regprocedure::text AS name, p.proname, p.prokind::text AS kind,
       coalesce((SELECT string_agg('NULL::' || format_type(t, NULL), ', ' ORDER BY i)
                   FROM unnest(CASE p.prokind WHEN 'p' THEN p.proallargtypes ELSE p.proargtypes::oid[] END)
                        WITH ORDINALITY AS u (t, i)), '') AS arguments
  FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace WHERE n.nspname = 'windlass' ORDER BY 2
"""
WRITES = ("INSERT", "UPDATE", "DELETE", "TRUNCATE", "REFERENCES", "TRIGGER")
PRODUCES = {
    "enqueue", "enqueue_many", "enqueue_mixed", "enqueue_one", "check_call_load", "lock_keys", "pressure_of",
    "statuses_of", "note_refused", "change_pressure", "take_tokens", "give_tokens", "lease_tokens",
    "settle_tokens", "published_queue", "published_tasks", "send_signal", "send_signals", "signal",
    "add_to_group", "close_group",
}  # fmt: skip
READS = {
    "block_seconds", "bucket_ceiling", "bucket_left", "period_end",
    "breaker_left", "breaker_length", "breaker_state", "bucket_at", "bucket_of", "cooldown_left", "cursor_of",
    "depth", "enqueued_of", "unix_time", "failures_of", "flow_of", "gate_reason", "gather_seqs", "in_quotes",
    "job_of", "lane_depth", "lane_head", "lane_heads", "list_aside", "list_causes", "list_claims",
    "list_found", "list_gates", "list_judged", "list_lanes", "list_parents", "list_spans",
    "list_watermarks", "locate", "next_waiting_lists", "now", "offered", "place_claim", "place_outcome",
    "deferred_reason", "end_reason", "records_of", "saved_of", "segment_bytes", "shown_as", "count_seqs",
    "standing_of", "read_stream",
    "task_depths", "unfinished", "published_queue", "published_tasks", "ended", "ends_of", "has_ended",
    "uncounted",
    "moved_lanes", "lane_depths", "aside_counts", "aside_queues", "count_aside", "part_runs", "queues_stamp",
    "changes_itself", "due_schedules", "group_circles", "leads_to", "waits_since",
}  # fmt: skip
LOOKS = {"schema_version"}  # what every role may ask, so that a store can be opened


async def allowed_functions(base: Base, user: str) -> set[str]:
    """The names of the functions that a role may call."""
    rows = await base.look.rows(
        f"SELECT f.proname, has_function_privilege($1, f.oid, 'EXECUTE') FROM ({FUNCTIONS}) f", user
    )
    return {row[0] for row in rows if row[1]}


async def denied(session: Session, sql: str) -> None:
    """A statement that must fail for want of rights."""
    with pytest.raises(asyncpg.InsufficientPrivilegeError):
        await session.run(sql)


@pytest.mark.parametrize("kind", ["producer", None])
async def test_a_producer_may_enqueue_and_nothing_else(alone: Base, role: MakeRole, kind: str | None) -> None:
    """[rule 11] Every relation and function is tried; a role that nobody allowed may not even enqueue."""
    await alone.lane()
    session = await alone.session(role(kind))
    user = await session.value("SELECT current_user")
    assert await allowed_functions(alone, user) == (PRODUCES | LOOKS if kind else set())
    for name, what, _ in await alone.look.rows(RELATIONS):
        if what == "S":
            await denied(session, f"SELECT last_value FROM {name}")
            await denied(session, f"SELECT nextval('{name}')")
            await denied(session, f"SELECT setval('{name}', 1)")
        else:
            await denied(session, f"SELECT FROM {name}")
            if what != "v":
                await denied(session, f"DELETE FROM {name}")
                await denied(session, f"INSERT INTO {name} DEFAULT VALUES")
    for function in await alone.look.rows(FUNCTIONS):
        if not kind or function["proname"] not in PRODUCES | LOOKS:
            verb = "CALL" if function["kind"] == "p" else "SELECT"
            await denied(session, f"{verb} windlass.{function['proname']}({function['arguments']})")
    await denied(session, "CREATE TABLE windlass.mine ()")
    await denied(session, "CREATE SCHEMA mine")


async def test_a_producer_learns_where_a_job_belongs(alone: Base, role: MakeRole) -> None:
    """[E5] [rule 11] A role that reads no table; of workers the command tells it nothing, since it may not
    know."""
    store = await alone.store()
    await store.register(WorkerInfo(id=7, queues=("mail",), tasks={"mail.send": "mail"}))
    made = await asyncio.to_thread(Desk(role("producer")).run, "enqueue", "mail.send", "--json")
    assert (made.exit_code, made.stderr) == (0, "")
    job = await store.job(int(json.loads(made.stdout)["id"]))
    assert job is not None
    assert job.queue == "mail"


async def test_a_producer_enqueues_in_every_way(alone: Base, role: MakeRole) -> None:
    """[rule 11] [E1] [E2] Plain, many, delayed, unique, idempotent, keyed, and for a queue without a lane."""
    lane, worker = await alone.lane(), await alone.worker()
    dsn = role("producer")
    producer = await alone.session(dsn)
    jobs = [await producer.enqueue(**options) for options in (
        {}, {"delay": timedelta(milliseconds=1)}, {"unique_key": "k"}, {"idempotency_key": "i"},
        {"fair_key": "f"}, {"ordering_key": "o"}, {"concurrency_key": "c", "key_limit": 2},
    )]  # fmt: skip
    assert await producer.enqueue(unique_key="k") == jobs[2]
    jobs += await producer.value(
        "SELECT windlass.enqueue_many($1, 2::smallint, '{t}', '{\"{}\",\"[]\"}')", alone.queue
    )
    other = await producer.enqueue(queue="other")
    own = await alone.store(dsn)
    new = NewJob(task="t", payload="{}", queue=alone.queue, options=Options(unique_key="r"))
    await own.enqueue([new])
    (replaced,) = await own.enqueue([msgspec.structs.replace(new, on_conflict="replace")])
    (kept,) = await own.enqueue([msgspec.structs.replace(new, options=Options(concurrency_key="d"))])
    jobs += [replaced.id, kept.id]
    store = await alone.store()
    await alone.until("SELECT NOT EXISTS (SELECT FROM windlass.deferred WHERE run_at > clock_timestamp())")
    await store.promote()
    assert sorted(await alone.drain(lane, worker)) == sorted(jobs)
    assert await alone.drain(await alone.lane("other"), worker) == [other]


async def test_w2_a_producer_sends_signals_to_jobs_that_it_may_not_look_at(
    alone: Base, role: MakeRole, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 11] Who waits is asked for those that are sent once, and that once: each refusal is a line in the
    log of the server."""
    own, asked = await alone.store(role("producer")), list[int]()
    waits = own.waits

    async def look(limit: int, *, job: int, signal: str) -> list[WaitRecord]:
        asked.append(job)
        return await waits(limit, job=job, signal=signal)

    monkeypatch.setattr(own._signals, "_waits", look)
    (job,) = await own.enqueue([NewJob(task="t", payload="{}")])
    assert [await NewSignal(job.id, "go", "1", "1").send(own) for _ in range(2)] == ["kept", "kept"]
    assert asked == []
    keyed = [NewSignal(job.id, "go", "1", "1", Once(key)) for key in "ab"]
    assert [await signal.send(own) for signal in keyed] == ["kept", "kept"]
    assert asked == [job.id]


async def test_a_receipt_says_what_became_of_a_producers_job(alone: Base, role: MakeRole) -> None:
    """[E1] Without a lane a job waits in deferred, due now: enqueued, not held, but where it has a gate to
    pass [rule 11]. So say all ways of adding it."""
    own = await alone.store(role("producer"))
    plain = NewJob(task="t", payload="{}", queue="unseen")
    fair = msgspec.structs.replace(plain, options=Options(fair_key="f"))
    once, again = (msgspec.structs.replace(fair, idempotency_key=key) for key in "oa")
    for jobs in ([plain], [fair], [plain, fair], [once], [plain, again]):
        assert {receipt.status for receipt in await own.enqueue(jobs)} == {"enqueued"}
    keyed = msgspec.structs.replace(plain, options=Options(ordering_key="o"))
    once, again = (msgspec.structs.replace(keyed, idempotency_key=f"k{key}") for key in "oa")
    for jobs in ([keyed], [plain, keyed], [once], [plain, again]):
        assert [receipt.status for receipt in await own.enqueue(jobs)] == ["enqueued", "held"][-len(jobs) :]
    await alone.lane("unseen")
    assert [receipt.status for receipt in await own.enqueue([plain])] == ["enqueued"]
    assert [receipt.status for receipt in await own.enqueue([fair])] == ["held"]
    assert [receipt.status for receipt in await own.enqueue([plain, fair, plain, fair])] == [
        "enqueued", "held", "enqueued", "held",
    ]  # fmt: skip


async def a_worker_keeps_to_limits(store: PostgresStore) -> None:
    """[F1] [F3] [F6] Gates, tokens and the limit of a queue."""
    await store.set_task("l", {"concurrency": 1})
    await store.set_queue("limited", {"concurrency": 1})
    options = Options(ordering_key="k", concurrency_key="k")
    await store.enqueue([NewJob(task="l", payload="{}", queue="limited", options=options)] * 2)
    needs = {"l": [Need("never")]}
    assert await store.claim(1, ["limited"], 9, needs) == []
    assert {gate.name for gate in await store.gates()} == {"order:limited/k", "budget:never/"}
    await store.declare_budget(NewBudget(name="never", rate=1.0, burst=2))
    await store.promote()
    for flush, waiting in ((10, 1), (11, 0)):
        (claim,) = await store.claim(1, ["limited"], 9, needs)
        await store.finish(1, flush, [Outcome(job=claim.jobs[0])])
        (mark,) = await store.watermarks("limited")
        assert (mark.position, mark.waiting) == (2 - waiting, waiting)


async def a_worker_splits(store: PostgresStore) -> None:
    """[P4] [P6] [P12] A parent from its split to its removal, a job after it, and settings of its task."""
    (parent,) = await store.enqueue(
        [NewJob(task="p", payload="{}", queue="big", options=Options(chunked=True))]
    )
    (claim,) = await store.claim(1, ["big"], 1)
    await store.split(1, 2, claim.jobs[0], Plan(parts=[PartPlan("1"), PartPlan("2")], parallel=1))
    after = NewJob(
        task="a", payload="{}", queue="big", options=Options(after=(parent.id,), otherwise="cancel")
    )
    (waiting,) = await store.enqueue([after])
    (claim,) = await store.claim(1, ["big"], 9)
    async with store.saving(1, claim.jobs[0], lambda: Checkpoint("{}", 1, 2)):
        pass
    await store.finish(1, 3, [Outcome(job=claim.jobs[0], kind=Kind.DEAD)])
    assert await store.set_parent(parent.id, parallel=2) is not None
    assert await store.redrive(parent.id) == 1
    assert await store.cancel([parent.id]) == {parent.id: "requested"}
    await store.promote()
    assert [found.state for found in await store.parents()] == [State.CANCELLED]
    assert (await store.wait_finished(waiting.id, 5)).state is State.CANCELLED
    assert await store.delete([parent.id]) == {parent.id: "deleted"}
    assert (await store.set_task("p", {"batch": 5})).batch == 5
    assert await store.begin_chore("p", 60)


async def test_a_worker_runs_the_whole_store_without_ddl(alone: Base, role: MakeRole) -> None:
    """[rule 11] From a queue that nobody declared to retention; a second store declares nobody dead."""
    dsn = role("worker")
    store = await alone.store(dsn)
    session = await alone.session(dsn)
    await denied(session, "CREATE TABLE windlass.mine ()")
    await denied(session, "SELECT windlass.allow('public', 'worker')")
    every = {row["proname"] for row in await alone.look.rows(FUNCTIONS)}
    user = await session.value("SELECT current_user")
    assert every - await allowed_functions(alone, user) == {"allow", "stamp"}
    await denied(session, "DELETE FROM windlass.ready")
    for worker in (1, 2):
        await store.register(WorkerInfo(id=worker, queues=("mail", "limited")))
    new = NewJob(task="t", payload="{}", queue="mail")
    ids = [receipt.id for receipt in await store.enqueue([new] * 5)]
    await store.enqueue(
        [NewJob(task="t", payload="{}", queue="mail", delay=0.0, options=Options(fair_key="f"))]
    )
    await store.promote()
    (claim,) = await store.claim(1, ["mail"], 4)
    done, failed, dead, _ = claim.jobs
    await store.checkpoint(1, done, Checkpoint("{}", 1, 2))
    error = Failure("ValueError", "boom")
    finished = await store.finish(
        1,
        1,
        [
            Outcome(job=done, result="1"),
            Outcome(job=failed, kind=Kind.RETRY, delay=60.0, error=error),
            Outcome(job=dead, kind=Kind.DEAD, error=error),
        ],
    )
    assert finished.applied == 3
    assert (await store.wait_finished(done.id, 5)).result == "1"
    assert await store.retry([dead.id]) == {dead.id: "retried"}
    assert await store.cancel([ids[4], failed.id]) == {ids[4]: "cancelled", failed.id: "cancelled"}
    assert await store.delete([done.id]) == {done.id: "deleted"}
    assert (await store.set_queue("mail", {"max_workers": 3})).max_workers == 3
    assert await store.throttle("mail") == 60.0
    assert await store.warm("mail", force=True)
    await a_worker_splits(store)
    await a_worker_keeps_to_limits(store)
    term = await store.lead(7, 30.0)
    assert term is not None
    await store.assign(term, {2: {"mail": 3}})
    assert (await store.cluster_view([2])).slots == {2: {"mail": 3}}
    await store.resign(7)
    assert {finding.level for finding in await store.diagnose()} == {"ok"}

    again = await alone.store(dsn)
    assert await again.heartbeat(1) is not None, (
        "a lane declared after the grant does not look like one set back"
    )
    rescued = await again.rescue(1, 1, DeathPolicy())
    assert rescued is not None
    assert rescued.offered == 1
    assert (await store.rotate(force=True)).reclaimed
    await store.expire()
    assert len((await store.jobs(JobFilter(state=State.READY), 10)).jobs) == 3
    assert (await store.depth())["mail"].ready == 3
    assert len(await store.workers()) == 1
    assert await store.retire(2) == 0


async def test_a_reader_sees_everything_and_changes_nothing(alone: Base, role: MakeRole) -> None:
    """[rule 11] The view and the counts are its own to ask for, also for lanes declared after the grant."""
    reader = await alone.session(role("reader"))
    lane = await alone.lane()
    jobs = [await alone.look.enqueue(tags=["a"]), await alone.look.enqueue(delay=timedelta(hours=1))]
    assert [
        row[0] for row in await reader.rows("SELECT id FROM windlass.job ORDER BY run_at NULLS FIRST")
    ] == jobs
    row = await reader.row("SELECT * FROM windlass.depth() WHERE queue = $1", alone.queue)
    assert (row["ready"], row["scheduled"]) == (1, 1)
    assert await reader.value("SELECT windlass.lane_depth($1)", lane) == 1
    store = await alone.store(role("reader"))
    assert [queue.name for queue in await store.queues()] == [alone.queue]
    assert list((await store.cluster_view([])).queues) == [alone.queue]
    assert [job.id for job in (await store.jobs(JobFilter(state=State.SCHEDULED), 10)).jobs] == jobs[1:]
    assert (await store.parents(), await store.parts(jobs[0]), await store.tasks()) == ([], [], [])
    assert await reader.value("SELECT count(*) FROM windlass.job_parent, windlass.job_part") == 0
    held = await alone.look.enqueue(ordering_key="k")
    assert await reader.value("SELECT reason FROM windlass.job WHERE id = $1", held)
    assert [(gate.waiting, gate.passes) for gate in await store.gates()] == [(1, 0)]
    assert [mark.waiting for mark in await store.watermarks(alone.queue)] == [1]
    assert (await store.wait_stream(jobs[0], 0, 0.05)).state is State.READY
    await denied(reader, "SELECT windlass.advance(1)")
    await denied(reader, "SELECT windlass.throttle('q')")
    await denied(reader, "SELECT windlass.lead(1, 30)")
    for name, what, oid in await alone.look.rows(RELATIONS):
        if what != "S":
            rights = await alone.look.row(
                "SELECT " + ", ".join(f"has_table_privilege($1, $2::oid, '{right}')" for right in WRITES),
                await reader.value("SELECT current_user"), oid,
            )  # fmt: skip
            assert not any(rights), name
    assert await allowed_functions(alone, await reader.value("SELECT current_user")) == READS | LOOKS
    await denied(reader, "SELECT windlass.enqueue('t')")
    await denied(reader, "SELECT windlass.cancel(1)")
    await denied(reader, f"CALL windlass.claim({lane}, 1, 1, 1)")


async def test_an_upgrade_gives_allowed_roles_the_new_functions(alone: Base, role: MakeRole) -> None:
    """[rule 11] Functions are replaced as a whole; who was allowed before is allowed afterwards."""
    session = await alone.session(role("producer"))
    user = await session.value("SELECT current_user")
    await alone.look.run(f"REVOKE ALL ON ALL FUNCTIONS IN SCHEMA windlass FROM {user}")
    await alone.look.run("UPDATE windlass.meta SET functions = 'older'")
    store = await alone.store()
    await store.migrate()
    assert await allowed_functions(alone, user) == PRODUCES | LOOKS
    assert await session.enqueue() > 0
    for kind in ("admin", ""):
        with pytest.raises(asyncpg.PostgresError) as refused:
            await alone.look.run("SELECT windlass.allow($1, $2)", user, kind)
        assert refused.value.sqlstate == "WL005"
