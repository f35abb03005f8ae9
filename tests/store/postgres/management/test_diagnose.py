"""What the doctor finds, and what it tells the operator to do."""

import time
from collections.abc import Callable

import pytest

from tests.postgres import Server
from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore, diagnosis, measures
from windlass.store.records import Finding, NewJob, WorkerInfo

NAMES = [
    "schema",
    "server",
    "clock",
    "connections",
    "speed",
    "wake-ups",
    "polling",
    "queues",
    "budgets",
    "groups",
    "counts",
    "rotation",
    "locks",
    "snapshots",
]
MakeRole = Callable[[str | None], str]


async def wrong(store: PostgresStore) -> dict[str, Finding]:
    """The findings that are not in order, by name."""
    return {finding.name: finding for finding in await store.diagnose() if finding.level != "ok"}


async def test_a_store_in_good_order(alone: Base) -> None:
    """Every look says so."""
    store = await alone.store()
    findings = await store.diagnose()
    assert [finding.name for finding in findings] == NAMES
    assert {finding.level for finding in findings} == {"ok"}, findings
    assert [finding.advice for finding in findings] == [""] * len(NAMES)


async def test_a_server_that_has_hardly_any_connection_left(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = await alone.store()
    monkeypatch.setattr(diagnosis, "CROWDED", 0.0)
    finding = (await wrong(store))["connections"]
    assert finding.level == "warning"
    assert "connections are in use" in finding.text
    assert "max_connections" in finding.advice


async def test_a_queue_that_nobody_serves(alone: Base) -> None:
    """[K1] Also one that no lane was declared for yet; a worker that serves it puts it right."""
    store = await alone.store()
    await store.enqueue([NewJob(task="t", payload="{}", queue="mail")] * 2)
    await alone.look.enqueue(queue="undeclared")
    findings = [finding for finding in await store.diagnose() if finding.name == "queues"]
    assert [(finding.level, finding.advice) for finding in findings] == [
        ("warning", "windlass worker myapp:app -q mail"),
        ("warning", "windlass worker myapp:app -q undeclared"),
    ]
    assert "2 jobs wait in queue 'mail'" in findings[0].text
    await store.register(WorkerInfo(id=1, queues=("mail", "undeclared")))
    assert await wrong(store) == {}
    await store.retire(1)
    assert set(await wrong(store)) == {"queues"}


async def test_functions_of_another_windlass(alone: Base) -> None:
    """What to run is said."""
    store = await alone.store()
    await alone.look.run("UPDATE windlass.meta SET functions = 'older'")
    found = await wrong(store)
    assert set(found) == {"schema"}
    assert found["schema"].level == "error"
    assert "windlass migrate" in found["schema"].advice


async def test_counts_that_take_long(alone: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """[S1] The real cost is measured, not guessed from settings."""
    store = await alone.store()
    monkeypatch.setattr(diagnosis, "SLOW", -1.0)
    found = await wrong(store)
    assert set(found) == {"speed"}
    assert "counting the queues takes" in found["speed"].text


async def test_a_function_that_the_server_compiles_at_each_call(stock_server: Server) -> None:
    """[S1] Distributions ship servers with jit on. Somebody has reset what keeps a function from it."""
    name = stock_server.create_database()
    store = PostgresStore(stock_server.dsn(name))
    try:
        await store.migrate()
        await store.open()
        assert "speed" not in await wrong(store)
        async with store._db.connection() as connection:
            await connection.execute("ALTER FUNCTION windlass.depth() RESET jit")
        found = (await wrong(store))["speed"]
        assert "1 function anew at each call, such as depth" in found.text
        assert "windlass migrate" in found.advice
    finally:
        await store.close()
        stock_server.drop_database(name)


async def test_a_rotation_that_is_blocked(alone: Base) -> None:
    """[K6] By whom, and since when."""
    store = await alone.store()
    await alone.lane()
    (producer,) = await alone.sessions(1)
    await producer.begin()
    await producer.enqueue()
    assert not (await store.rotate(force=True)).reclaimed
    found = await wrong(store)
    assert f"process {producer.pid}" in found["rotation"].text
    assert "segment could not be reclaimed" in found["rotation"].text  # the rotation has let go of it
    await producer.rollback()


async def test_who_holds_what_others_want(alone: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """[S2] [fault 27] Process, application, age, and what; a handler's own transaction holds nobody up."""
    monkeypatch.setattr(diagnosis, "HELD", 0.0)
    monkeypatch.setattr(measures, "HELD", 0.0)
    store, lane, worker = await alone.store(), await alone.lane(), await alone.worker()
    _, waiting = [await alone.look.enqueue() for _ in range(2)]
    (job,) = (await alone.claim(lane, worker, 1)).jobs
    caller = await alone.session(application_name="console")
    await caller.begin()
    await caller.run("SET LOCAL windlass.notify = off")  # else it could not be prepared
    await caller.run(
        "SELECT windlass.checkpoint($1, $2, $3, $4, $5, '{}', 1, 2)", worker, job.id, lane, job.claim, job.seq
    )
    assert "locks" not in await wrong(store)
    assert (await store.health()).locks_held == 0
    await caller.run("SELECT windlass.cancel($1)", waiting)
    await caller.run("""SELECT windlass.set_queue('another', '{"paused": true}')""")
    found = (await wrong(store))["locks"].text
    assert f"process {caller.pid} of postgres (console) has been in a transaction for 0:00:0" in found
    assert f"a lane of queue {alone.queue}" in found
    assert "rows of queue" in found
    assert 0 < ((await store.health()).locks_held or 0) < 20
    await caller.run("PREPARE TRANSACTION 'forgotten'")
    assert "prepared transaction 'forgotten' of postgres" in (await wrong(store))["locks"].text
    await caller.run("ROLLBACK PREPARED 'forgotten'")
    assert "locks" not in await wrong(store)


async def test_a_snapshot_that_is_held_for_long(alone: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """It keeps every dead row of the server."""
    monkeypatch.setattr(diagnosis, "OLD", 0.0)
    store = await alone.store()
    (reader,) = await alone.sessions(1)
    await reader.begin("repeatable read")
    await reader.value("SELECT 1")
    findings = [finding.text for finding in await store.diagnose() if finding.name == "snapshots"]
    assert any(f"process {reader.pid} " in text for text in findings)
    await reader.rollback()


async def test_a_clock_that_is_wrong(alone: Base, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how much."""
    store = await alone.store()
    real = time.time
    monkeypatch.setattr(time, "time", lambda: real() - 90.0)
    found = await wrong(store)
    assert "90.0 s" in found["clock"].text
    assert "NTP" in found["clock"].advice


async def test_a_reader_may_ask_and_a_producer_is_told_what_it_cannot_see(
    alone: Base, role: MakeRole
) -> None:
    """[rule 11] A look that was not taken is no good report."""
    assert await wrong(await alone.store(role("reader"))) == {}
    found = await wrong(await alone.store(role("producer")))
    assert set(found) == {"speed", "polling", "queues", "budgets", "groups", "counts", "rotation", "locks"}
    assert "may not see" in found["queues"].text
