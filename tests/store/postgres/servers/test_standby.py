"""On a hot standby what reads works and says where it is; what writes is refused in a sentence."""

import asyncio
import json
from collections.abc import Iterator

import psycopg
import pytest

from tests.cli.kit import Desk
from tests.standby import Standby
from tests.store.postgres.adapters.callers import ASYNC, SYNC
from tests.store.postgres.servers.conftest import Pair
from tests.web.kit import visiting
from windlass import Windlass
from windlass.core.states import Kind
from windlass.errors import StoreReadOnly
from windlass.running.store_handle import StoreHandle
from windlass.store.postgres import PostgresStore
from windlass.store.records import Failure, JobFilter, NewJob, Outcome, WorkerInfo
from windlass.web.pages import PAGES

SAID = "this is a read-only standby"


@pytest.fixture(scope="module")
def filled(pair: Pair) -> dict[str, int]:
    """A job that succeeded, a dead one and a ready one."""
    ids = asyncio.run(_fill(pair.here))
    pair.standby.caught_up()
    return ids


async def _fill(url: str) -> dict[str, int]:
    store = PostgresStore(url)
    await store.open()
    try:
        jobs = [NewJob(task="mail.send", payload='["a"]', queue="mail")] * 3
        succeeded, dead, ready = (receipt.id for receipt in await store.enqueue(jobs))
        await store.register(WorkerInfo(id=7, label="w-7", queues=("mail",)))
        (claim,) = await store.claim(7, ["mail"], 2)
        well, badly = claim.jobs
        failed = Outcome(job=badly, kind=Kind.DEAD, error=Failure("ValueError", "no", "", 1))
        await store.finish(7, 1, [Outcome(job=well, run_ms=1.0, result='"ok"'), failed])
        return {"succeeded": succeeded, "dead": dead, "ready": ready}
    finally:
        await store.close()


READING = [
    ("queues",), ("queue", "show", "mail"), ("jobs",), ("jobs", "--text", "a"), ("dead", "list"),
    ("dead", "causes"), ("schedules", "list"), ("budgets",), ("gates",), ("watermarks", "mail"),
    ("events",), ("tasks",), ("workers",), ("parents",), ("top", "--once"),
]  # fmt: skip
WRITING = [
    ("enqueue", "mail.send", "--queue", "mail"), ("queue", "pause", "mail"),
    ("dead", "retry", "--all", "--yes"), ("maintain", "promote", "--once"),
    ("maintain", "retention", "--once"), ("migrate",),
]  # fmt: skip


@pytest.mark.parametrize("command", READING, ids=" ".join)
def test_commands_that_read_work_and_say_where(
    command: tuple[str, ...], pair: Pair, filled: dict[str, int]
) -> None:
    here, there = Desk(pair.here).run(*command), Desk(pair.there).run(*command)
    assert there.exit_code == 0, there.output
    assert SAID in there.stderr
    assert SAID not in there.stdout
    assert SAID not in here.stderr


@pytest.mark.parametrize("caller", SYNC)
def test_e1_a_callers_own_connection_is_told_too(pair: Pair, filled: dict[str, int], caller: str) -> None:
    """[E1] Drivers said "cannot access temporary or unlogged relations during recovery", each in its own
    class of errors."""
    with Windlass(pair.there) as app, SYNC[caller](pair.there, False) as connection:
        task = app.named("mail.send").using(connection=connection, queue="mail")
        with pytest.raises(StoreReadOnly, match=r"This is a standby, .* write to the primary"):
            task.enqueue("a")


@pytest.mark.parametrize("caller", ASYNC)
async def test_e1_a_callers_own_asynchronous_connection_is_told_too(
    pair: Pair, filled: dict[str, int], caller: str
) -> None:
    with Windlass(pair.there) as app:
        async with ASYNC[caller](pair.there, False) as connection:
            task = app.named("mail.send").using(connection=connection, queue="mail", delay="1h")
            with pytest.raises(StoreReadOnly, match=r"This is a standby, .* write to the primary"):
                await task.aenqueue("a")


def test_e1_a_session_that_may_only_read_is_told_so(pair: Pair, filled: dict[str, int]) -> None:
    with Windlass(pair.here) as app, psycopg.connect(pair.here) as connection:
        connection.read_only = True
        with pytest.raises(StoreReadOnly, match="a session that may only read: write to the primary"):
            app.named("mail.send").using(connection=connection, queue="mail").enqueue("a")


def test_a_job_is_shown(pair: Pair, filled: dict[str, int]) -> None:
    shown = json.loads(Desk(pair.there).run("job", "show", str(filled["dead"]), "--json").stdout)
    assert [job["state"] for job in shown["jobs"]] == ["dead"]


def test_depth_is_that_of_the_rows(pair: Pair, filled: dict[str, int]) -> None:
    """A standby reads a sequence up to 32 numbers ahead of its primary: one ready job was shown as 33."""
    (here,), (there,) = (Desk(url).json("queues")["queues"] for url in (pair.here, pair.there))
    assert here["ready"] == there["ready"] == 1


def test_depth_is_that_of_the_rows_after_an_epoch_began(pair: Pair, filled: dict[str, int]) -> None:
    """[S3] The numbers that it passed over have no rows: queues were shown with minus half a billion jobs."""
    with psycopg.connect(pair.here) as primary:
        primary.execute("SELECT windlass.adopt()")
    pair.standby.caught_up()
    (here,), (there,) = (Desk(url).json("queues")["queues"] for url in (pair.here, pair.there))
    assert here["ready"] == there["ready"] == 1


@pytest.mark.parametrize("command", WRITING, ids=" ".join)
def test_commands_that_write_say_why_not(
    command: tuple[str, ...], pair: Pair, filled: dict[str, int]
) -> None:
    done = Desk(pair.there).run(*command)
    assert done.exit_code == 1, done.output
    assert "standby" in done.stderr
    assert "Traceback" not in done.output


def test_the_doctor_says_it(pair: Pair, filled: dict[str, int]) -> None:
    found = {each["name"]: each for each in Desk(pair.there).json("doctor")["findings"]}
    assert SAID in found["writes"]["text"]
    assert "target_session_attrs" in found["writes"]["advice"]
    assert "wake-ups" not in found


async def test_every_page_is_served(pair: Pair, filled: dict[str, int]) -> None:
    """The pages say so, and offer nothing that cannot be done."""
    ids = {"{name}": "mail", "{id}": str(filled["dead"])}
    with Windlass(pair.there) as app:
        async with app, visiting(app) as visitor:
            for page in PAGES:
                if page.method != "GET" or page.path in ("/parents/{id}", "/bulk/{id}", "/bulk/new"):
                    continue
                path = page.path
                for mark, value in ids.items():
                    path = path.replace(mark, value)
                answer = await visitor.get(path)
                assert answer.status_code == 200, (path, answer.text)
                assert SAID in answer.text, path
                assert '<button class="small" name="do"' not in answer.text, path
            for path in (
                "/metrics",
                "/readyz",
                "/api/overview",
                "/api/operations",
                "/api/queues",
                "/api/jobs",
            ):
                assert (await visitor.get(path)).status_code == 200, path


async def test_actions_are_refused_in_words(pair: Pair, filled: dict[str, int]) -> None:
    with Windlass(pair.there) as app:
        async with app, visiting(app) as visitor:
            for path in ("/api/queues/mail/pause", f"/api/jobs/{filled['dead']}/retry"):
                answer = await visitor.post(path)
                assert (answer.status_code, answer.json()["error"]["code"]) == (409, "read_only"), answer.text
                assert "primary" in answer.json()["error"]["message"]
            form = await visitor.post("/queues/mail", data={"do": "pause"})
            assert form.status_code == 409
            assert "is read-only" in form.text


@pytest.fixture
def promoted(pair: Pair) -> Iterator[Standby]:
    with Standby(pair.primary) as standby:
        yield standby


async def test_a_worker_waits_until_the_standby_is_promoted(
    pair: Pair, filled: dict[str, int], promoted: Standby
) -> None:
    """It waits as for a server that is away, and says for what; a page that is open notices, too."""
    url = promoted.dsn(pair.database)
    reader = PostgresStore(url)
    await reader.open()
    handle = StoreHandle(lambda: PostgresStore(url), roams=False)
    seen: list[str] = []
    met = asyncio.Event()

    async def patience(failures: int, error: Exception) -> None:
        seen.append(str(error))
        met.set()
        await asyncio.sleep(0.05)

    async def work() -> list[int]:
        async with handle.here(patience) as store:
            receipts = await store.enqueue([NewJob(task="a", payload="{}", queue="mail")])
            return [receipt.id for receipt in receipts]

    working = asyncio.create_task(work())
    try:
        await met.wait()
        assert SAID in seen[0]
        with pytest.raises(StoreReadOnly, match="write to the primary"):
            await reader.enqueue([NewJob(task="a", payload="{}", queue="mail")])
        assert SAID in (reader.read_only or "")
        await asyncio.to_thread(promoted.promote)
        (job,) = await working
        page = await reader.jobs(JobFilter(), 10)
        assert job in [record.id for record in page.jobs]
        assert reader.read_only is None
    finally:
        working.cancel()
        await reader.close()
