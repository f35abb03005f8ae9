"""windlass copy: what waits in a SQLite store goes to PostgreSQL, with its past, and nothing goes twice."""

import asyncio
import csv
import json
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest

from tests.cli.kit import Desk, windlass
from tests.conformance.kit import Rig, failure, sample
from tests.stopwatch import within
from tests.web.kit import visiting
from windlass import Retry, Snooze, Windlass
from windlass.core.states import Kind, Priority, State
from windlass.errors import AlreadyEnqueued, StoreMoved
from windlass.store.moving.copy import Copy
from windlass.store.records import CARRIED, Checkpoint, Emits, NewSchedule, Options, Step, Wait
from windlass.store.signal_rules import keyed

Work = Callable[[Rig], Awaitable[Any]]


class Pair:
    """A SQLite file, and an empty PostgreSQL store to copy it to."""

    def __init__(self, here: str, there: str, folder: Path) -> None:
        self.here = Desk(here)
        self.there = Desk(there)
        self.map = folder / "map.csv"
        self.here.ok("migrate")

    def copy(self, *flags: str) -> Any:
        result = windlass("copy", self.here.url, self.there.url, "--map", str(self.map), "--json", *flags)
        assert result.exit_code == 0, result.output
        return json.loads(result.stdout)

    def refused(self, *flags: str) -> str:
        result = windlass("copy", self.here.url, self.there.url, *flags)
        assert result.exit_code == 1, result.output
        return str(result.stderr)

    def ids(self) -> dict[int, int]:
        with self.map.open() as file:
            return {int(row["old"]): int(row["new"]) for row in csv.DictReader(file)}


@pytest.fixture
def pair(tmp_path: Path, pg_dsn: str) -> Pair:
    return Pair(f"sqlite:///{tmp_path.as_posix()}/jobs.db", pg_dsn, tmp_path)


def test_jobs_need_there_what_they_needed_here(pair: Pair) -> None:
    """[K14] Wherever they waited, and the parts of a parent, too."""
    ways: tuple[dict[str, Any], ...] = ({}, {"delay": 3600.0}, {"fair_key": "f"}, {"concurrency_key": "k"})

    async def fill(rig: Rig) -> None:
        for way in ways:
            await rig.add("t", needs="gpu", **way)
        worker = await rig.worker(abilities=frozenset({"gpu"}))
        (id,) = await rig.add("parent", chunked=True, needs="gpu", queue="parents")
        await rig.split(worker, await rig.run(worker, id, "parents"), 2)
        await rig.store.retire(worker)

    pair.here.visit(fill)
    pair.copy()

    async def check(rig: Rig) -> None:
        for job in await rig.listing(state=State.SCHEDULED):
            await rig.store.retry([job.id])
        await rig.store.promote()
        plain = await rig.worker("default", "parents")
        assert await rig.claim(plain, "default", "parents") == []
        able = await rig.worker("default", "parents", abilities=frozenset({"gpu"}))
        await rig.store.promote()
        assert len(await rig.claim(able, "default", "parents")) >= len(ways) + 1

    pair.there.visit(check)


def test_jobs_keep_their_order_attempts_errors_keys_and_checkpoints(pair: Pair) -> None:
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        made["retrying"] = await rig.bring(
            State.RETRYING, worker, "retrying", tags=("a",), headers={"h": "1"}, max_attempts=7
        )
        made["saved"] = (await rig.one("saved")).id
        run = await rig.run(worker, made["saved"])
        await rig.store.checkpoint(worker, run, Checkpoint('{"at":7}', 7, 10))
        await rig.finish(worker, run, Kind.RETRY, delay=0, error=failure("once"))
        await rig.store.retire(worker)
        for n in range(5):
            await rig.one("plain", payload=f'{{"n":{n}}}')
        made["urgent"] = (await rig.one("urgent", priority=Priority.URGENT)).id
        made["later"] = (await rig.one("later", delay=3600, unique_key="one", timeout=9.0)).id
        made["sent"] = (await rig.one("sent", idempotency_key="again", queue="mail")).id
        made["first"] = (await rig.one("first")).id
        made["then"] = (await rig.one("then", after=(made["first"],))).id
        made["last"] = (await rig.one("last", after=(made["then"],))).id

    pair.here.visit(fill)
    before = pair.here.visit(lambda rig: rig.look(made["retrying"]))
    done = pair.copy()
    assert (done["jobs"], done["repeated"], done["skipped"]) == (13, 0, 0)
    ids = pair.ids()

    async def check(rig: Rig) -> None:
        retrying = await rig.look(ids[made["retrying"]])
        assert retrying.state is State.RETRYING
        assert retrying.attempt == 2
        assert retrying.run_at == pytest.approx(before.run_at, abs=1e-3)
        assert retrying.enqueued_at == pytest.approx(before.enqueued_at, abs=1e-3)
        assert (retrying.options.tags, retrying.options.headers) == (("a",), {"h": "1"})
        assert retrying.options.max_attempts == 7
        assert [(each.message, each.attempt) for each in retrying.errors] == [("boom", 1)]
        saved = (await rig.store.checkpoints([ids[made["saved"]]]))[ids[made["saved"]]]
        assert (saved.data, saved.done, saved.total) == ('{"at":7}', 7, 10)
        later = await rig.look(ids[made["later"]])
        assert (later.state, later.options.timeout) == (State.SCHEDULED, 9.0)
        assert (await rig.one("later", unique_key="one")).id == later.id
        again = await rig.one("sent", idempotency_key="again", queue="mail")
        assert (again.id, again.status) == (ids[made["sent"]], "repeated")
        then = await rig.look(ids[made["then"]])
        assert (then.state, then.options.after) == (State.SCHEDULED, (ids[made["first"]],))
        with pytest.raises(AlreadyEnqueued):
            await rig.one("later", unique_key="one", on_conflict="reject")
        worker = await rig.worker()
        got = await rig.claim(worker)
        assert [job.task for job in got] == ["urgent", "saved", *["plain"] * 5, "first"]
        assert [json.loads(job.payload)["n"] for job in got if job.task == "plain"] == [0, 1, 2, 3, 4]
        assert next(job.attempt for job in got if job.task == "saved") == 2
        await rig.finish(worker, got)
        for task in ("then", "last"):
            await rig.store.promote()
            (job,) = await rig.claim(worker)
            assert job.task == task
            await rig.finish(worker, job)

    pair.there.visit(check)


def test_every_option_comes_along(pair: Pair) -> None:
    """But for the ids of jobs, which are others there; and it expires when it would have here."""
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        made["first"] = (await rig.one("first")).id
        for field in CARRIED:
            options = sample(field, made["first"]) | ({"expires": 3600.0} if field.name == "expires" else {})
            made[field.name] = (await rig.one(field.name, **options)).id

    async def read(rig: Rig) -> dict[str, Options]:
        return {name: (await rig.look(id)).options for name, id in made.items()}

    pair.here.visit(fill)
    before = pair.here.visit(read)
    pair.copy()
    made = {name: pair.ids()[id] for name, id in made.items()}
    after = pair.there.visit(read)
    for name, options in after.items():
        same = {"after": before[name].after, "expires_at": before[name].expires_at}
        assert msgspec.structs.replace(options, **same) == before[name]
        assert options.after == ((made["first"],) if before[name].after else ())
        assert options.expires_at == pytest.approx(before[name].expires_at, abs=1e-3)


def test_w1_a_job_that_sleeps_has_its_steps_there_and_goes_on_when_it_would_have_here(pair: Pair) -> None:
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        for name in ("asleep", "dead"):
            made[name] = (await rig.one(name)).id
            run = await rig.run(worker, made[name])
            await rig.store.save_step(worker, run, Step(name="plan", result='{"a":1}', code="m.plan"))
            if name == "asleep":
                await rig.store.save_step(worker, run, Step(name="sleep", sleep=3600.0))
                await rig.finish(worker, run, Kind.SNOOZE, delay=3600)
            else:
                await rig.finish(worker, run, Kind.DEAD, error=failure())
        await rig.store.retire(worker)

    pair.here.visit(fill)
    pair.copy("--dead")
    ids = pair.ids()

    async def check(rig: Rig) -> None:
        plan, sleep = await rig.store.steps(ids[made["asleep"]])
        assert (plan.name, plan.result, plan.code, plan.left) == ("plan", '{"a":1}', "m.plan", None)
        assert sleep.left == pytest.approx(3600, abs=60)
        asleep = await rig.look(ids[made["asleep"]])
        assert (asleep.state, asleep.attempt) == (State.SCHEDULED, 1)
        assert [step.name for step in await rig.store.steps(ids[made["dead"]])] == ["plan"]
        await rig.store.retry([asleep.id])
        run = await rig.run(await rig.worker(), asleep.id)
        assert run.ready_at != run.enqueued_at, "the run would not look for steps"

    pair.there.visit(check)


def test_w2_a_job_that_waits_for_signals_waits_on_there_and_takes_those_that_it_was_sent(pair: Pair) -> None:
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        for name in ("waits", "crashed", "dead"):
            made[name] = (await rig.one(name)).id
            run = await rig.run(worker, made[name])
            for signal, timeout, shape in (("yes", 3600.0, '{"type":"boolean"}'), ("no", None, None)):
                wait = Wait(name=f"wait:{signal}", signal=signal, timeout=timeout, shape=shape)
                assert (await rig.store.wait_for_signal(worker, run, wait)).step is None
            if name == "waits":
                await rig.finish(worker, run, Kind.SNOOZE, delay=3600)
                await rig.store.signal(run.id, "later", "1")
            else:  # it was sent what it has not taken yet, and may take when it runs again
                await rig.store.signal(run.id, "yes", "1")
                await rig.store.signal(run.id, "yes", "2")
                kind = Kind.DEAD if name == "dead" else Kind.RETRY
                await rig.finish(worker, run, kind, error=failure(), delay=3600)
        await rig.store.retire(worker)

    pair.here.visit(fill)
    before = pair.here.visit(lambda rig: rig.store.waits())
    reason = pair.here.visit(lambda rig: rig.look(made["waits"])).reason
    pair.copy("--dead")
    ids = pair.ids()

    async def check(rig: Rig) -> None:
        waits = await rig.store.waits()
        assert [(each.name, each.shape) for each in waits] == [(each.name, each.shape) for each in before]
        assert {each.job for each in waits} == {ids[made["waits"]]}
        for new, old in zip(waits, before, strict=True):
            assert new.since == pytest.approx(old.since, abs=1e-3)
            assert new.until == (None if old.until is None else pytest.approx(old.until, abs=1e-3))
        assert (await rig.look(ids[made["waits"]])).reason == reason
        assert await rig.store.signal(ids[made["waits"]], "yes", "true") == "delivered"
        await rig.store.retry([ids[made["dead"]], ids[made["crashed"]]])
        await rig.store.promote()
        worker = await rig.worker()
        runs = {run.task: run for run in await rig.claim(worker)}
        assert runs.keys() == {"waits", "crashed", "dead"}

        async def took(task: str, signal: str, name: str) -> str:
            wait = Wait(name=name, signal=signal, timeout=0)
            step = (await rig.store.wait_for_signal(worker, runs[task], wait)).step
            assert step is not None
            return step.result

        assert await took("waits", "yes", "wait:yes") == "true"
        assert await took("waits", "later", "wait:later") == "1"
        for task in ("crashed", "dead"):
            assert [await took(task, "yes", "wait:yes"), await took(task, "yes", "wait:yes#2")] == ["1", "2"]

    pair.there.visit(check)


def test_w2_e7_a_signal_that_is_sent_again_there_with_its_key_is_sent_once(pair: Pair) -> None:
    """Also to another job, the keys of one are not those of the next; and one that has been forgotten is."""
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        for name in ("one", "other"):
            made[name] = (await rig.one(name)).id
        assert await rig.store.signal(made["one"], "yes", "1", once=keyed(made["one"], "evt/7")) == "kept"

    async def check(rig: Rig) -> None:
        one, other = (pair.ids()[made[name]] for name in ("one", "other"))
        assert await rig.store.signal(one, "yes", "1", once=keyed(one, "evt/7")) == "repeated"
        assert await rig.store.signal(one, "yes", "1", once=keyed(one, "evt/8")) == "kept"
        assert await rig.store.signal(other, "yes", "1", once=keyed(other, "evt/7")) == "kept"

    pair.here.visit(fill)
    pair.copy()
    pair.there.visit(check)


def test_w2_a_file_that_was_copied_takes_no_signals(pair: Pair) -> None:
    id = pair.here.visit(lambda rig: rig.one("t")).id
    pair.copy()

    async def send(rig: Rig) -> None:
        with pytest.raises(StoreMoved, match="copied to"):
            await rig.store.signal(id, "go", "1")

    pair.here.visit(send)


@pytest.mark.parametrize("what", ["group", "results"])
def test_w4_jobs_that_know_others_by_their_ids_are_refused_before_anything_is_copied(
    pair: Pair, what: str
) -> None:
    """There they would run too early, or with the results of other jobs."""
    made: list[int] = []

    async def fill(rig: Rig) -> None:
        if what == "group":
            made.append((await rig.one("end", group_end=True, otherwise="run")).id)
        else:
            first = (await rig.one("first")).id
            made.append((await rig.one("sum", after=(first,), results={"a": first})).id)

    pair.here.visit(fill)
    assert "Let workers of this file end them" in pair.refused()
    pair.here.visit(lambda rig: rig.store.cancel(made))
    assert pair.copy()["jobs"] == (what == "results")


def test_w3_what_a_job_emitted_is_there_and_the_next_run_goes_on_behind_it(pair: Pair) -> None:
    """Of a long stream the end, at the positions that it had."""
    made: list[int] = []

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        for rows, text in ((2, "short"), (10, "x" * 200_000)):
            made.append((await rig.one("tells")).id)
            run = await rig.run(worker, made[-1])
            after = None
            for _ in range(rows):
                events = f'["{text}"]'
                (after,) = await rig.store.emit(worker, [Emits(job=run, after=after, n=1, events=events)])
            await rig.finish(worker, run, Kind.RETRY, delay=3600)
        await rig.store.retire(worker)

    pair.here.visit(fill)
    pair.copy()
    ids = [pair.ids()[id] for id in made]

    async def check(rig: Rig) -> None:
        short, long = [(await rig.store.wait_stream(id, 0, 0.0)).batches for id in ids]
        assert [(each.position, each.n, each.run, each.attempt, each.events) for each in short] == [
            (1, 1, 1, 1, '["short"]'),
            (2, 1, 1, 1, '["short"]'),
        ]
        assert [each.position for each in long] == [6, 7, 8, 9, 10]
        await rig.store.retry([ids[0]])
        worker = await rig.worker()
        run = await rig.run(worker, ids[0])
        assert await rig.store.emit(worker, [Emits(job=run, after=None, n=1, events="[1]")]) == [3]
        assert (await rig.store.wait_stream(ids[0], 2, 0.0)).batches[0].run == 2

    pair.there.visit(check)


def test_parents_go_on_where_their_parts_stood(pair: Pair) -> None:
    made: dict[str, int] = {}

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        made["parent"] = await rig.parent(worker, parts=5, finalizer=True, tolerated=1, unique_key="dump")
        for index in range(3):
            (part,) = await rig.claim(worker, limit=1)
            assert part.options.part is not None
            assert part.options.part.index == index
            await rig.store.checkpoint(worker, part, Checkpoint(f'{{"n":{index}}}', 5, 10))
            if index == 0:
                await rig.finish(worker, part)
            elif index == 1:
                await rig.finish(worker, part, Kind.DEAD, error=failure())
            else:
                await rig.finish(worker, part, Kind.RETRY, delay=0, error=failure())
        await rig.store.promote()
        await rig.store.retire(worker)

    pair.here.visit(fill)
    before = pair.here.visit(lambda rig: rig.parent_record(made["parent"]))
    done = pair.copy()
    assert done["parents"] == 1
    id = pair.ids()[made["parent"]]

    async def check(rig: Rig) -> None:
        parent = await rig.parent_record(id)
        for name in ("total", "succeeded", "dead", "out", "tolerated", "size"):
            assert getattr(parent, name) == getattr(before, name), name
        assert [part.state for part in await rig.store.parts(id)][:2] == [State.SUCCEEDED, State.DEAD]
        worker = await rig.worker()
        seen = []
        while (await rig.parent_record(id)).state is State.WAITING:
            await rig.store.promote()
            for part in await rig.claim(worker):
                assert part.options.part is not None
                assert part.options.part.parent == id
                seen.append((part.options.part.index, part.attempt))
                await rig.finish(worker, part)
        assert sorted(seen) == [(-1, 1), (2, 2), (3, 1), (4, 1)]
        assert (await rig.parent_record(id)).state is State.SUCCEEDED
        # The part that died is redriven from what it had saved.
        assert await rig.store.redrive(id) == 1
        await rig.store.promote()
        (part,) = await rig.claim(worker)
        saved = await rig.store.checkpoints([part.id])
        assert saved[part.id].data == '{"n":1}'

    pair.there.visit(check)


def test_an_ordering_key_keeps_its_turn(pair: Pair) -> None:
    """The first failed and waits for its retry: those behind it still wait for it."""

    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        for n in range(3):
            await rig.one("o", payload=f'{{"n":{n}}}', ordering_key="k")
        await rig.store.promote()
        (job,) = await rig.claim(worker)
        await rig.finish(worker, job, Kind.RETRY, delay=0.5, error=failure())
        await rig.store.retire(worker)

    pair.here.visit(fill)
    assert pair.copy()["jobs"] == 3

    async def check(rig: Rig) -> None:
        worker = await rig.worker()
        order: list[int] = []
        while len(order) < 3:
            await rig.store.promote()
            for job in await rig.claim(worker):
                order.append(json.loads(job.payload)["n"])
                await rig.finish(worker, job)
            await rig.store.wait(["default"], 0.1)
        assert order == [0, 1, 2]

    pair.there.visit(check)


def test_e6_an_edit_that_waits_for_the_end_of_a_job_comes_along(pair: Pair) -> None:
    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        await rig.one("edit", unique_key="k", payload='{"n":1}')
        (job,) = await rig.claim(worker)
        assert (await rig.one("edit", unique_key="k", payload='{"n":2}')).status == "rerun"
        await rig.finish(worker, job, Kind.RETRY, delay=0, error=failure())
        await rig.store.retire(worker)

    async def check(rig: Rig) -> None:
        worker = await rig.worker()
        ran = []
        for _ in range(2):
            await rig.store.promote()
            (job,) = await rig.claim(worker)
            ran.append((job.payload, job.attempt))
            await rig.finish(worker, job)
        assert ran == [('{"n":1}', 2), ('{"n":2}', 1)]

    pair.here.visit(fill)
    pair.copy()
    pair.there.visit(check)


def test_e7_a_key_of_a_job_that_has_ended_still_adds_nothing(pair: Pair) -> None:
    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        await rig.one("pay", idempotency_key="order-7")
        await rig.finish(worker, await rig.claim(worker))
        await rig.store.retire(worker)

    pair.here.visit(fill)
    assert pair.copy()["jobs"] == 0
    assert pair.there.visit(lambda rig: rig.one("pay", idempotency_key="order-7")).status == "repeated"
    assert pair.there.visit(lambda rig: rig.listing()) == []


async def test_c1_an_app_goes_on_where_it_stopped_and_runs_each_job_once(tmp_path: Path, pg_dsn: str) -> None:
    ran: list[int] = []

    def made(url: str) -> tuple[Windlass, Any]:
        app = Windlass(database_url=url)

        @app.task(name="count", retry=Retry(3, base=0))
        def count(n: int) -> None:
            ran.append(n)
            if n == 3 and ran.count(3) == 1:
                raise Snooze("0.1s")

        return app, count

    url = f"sqlite:///{tmp_path.as_posix()}/jobs.db"
    app, count = made(url)
    async with app:
        await count.aenqueue_many([(n,) for n in range(10)])
        await app.arun_until_idle()
        await count.aenqueue_many([(n,) for n in range(10, 30)])
    result = await asyncio.to_thread(windlass, "copy", url, pg_dsn)
    assert result.exit_code == 0, result.output
    assert "start workers and producers there" in result.stdout
    app, count = made(pg_dsn)
    async with app:
        await app.arun_until_idle(wait=5)
    assert sorted(set(ran)) == list(range(30))
    assert {n: ran.count(n) for n in range(30) if ran.count(n) > 1} == {3: 2}  # its own snooze


@pytest.mark.slow
def test_a_copy_that_was_killed_is_repeated(pair: Pair) -> None:
    """A real process, killed as soon as the target has its first jobs."""
    pair.here.visit(lambda rig: rig.add(*["t"] * 20_000))
    command = [sys.executable, "-m", "windlass", "copy", pair.here.url, pair.there.url]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with psycopg.connect(pair.there.url, autocommit=True) as connection:
        while process.poll() is None:
            (marks,) = connection.execute("SELECT count(*) FROM windlass.imported").fetchone() or (0,)
            if marks:
                process.kill()
                break
        process.wait()
        (some,) = connection.execute("SELECT count(*) FROM windlass.imported").fetchone() or (0,)
    assert 0 < some < 20_000
    done = pair.copy()
    assert (done["jobs"], done["repeated"]) == (20_000 - some, some)
    assert pair.there.visit(lambda rig: rig.depth()).ready == 20_000


def test_dead_jobs_come_when_asked_for(pair: Pair) -> None:
    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        await rig.one("gone")
        (job,) = await rig.claim(worker)
        await rig.finish(worker, job, Kind.DEAD, error=failure("why"))
        await rig.store.retire(worker)

    pair.here.visit(fill)
    assert "1 dead job left in the file" in windlass("copy", pair.here.url, pair.there.url).stdout
    assert pair.copy()["dead"] == 0
    assert pair.copy("--dead")["dead"] == 1

    async def check(rig: Rig) -> None:
        (dead,) = await rig.listing(state=State.DEAD)
        assert [each.message for each in dead.errors] == ["why"]
        assert await rig.store.retry([dead.id]) == {dead.id: "retried"}

    pair.there.visit(check)


def test_settings_and_schedules_come_along_and_those_there_stay(pair: Pair) -> None:
    async def fill(rig: Rig) -> None:
        await rig.store.set_queue("mail", {"max_workers": 3, "paused": True})
        await rig.store.set_queue("kept", {"max_workers": 3})
        await rig.store.set_task("shop.load", {"batch": 7})
        await rig.store.set_budget("api", {"rate": 2.0, "burst": 4})
        plan = NewSchedule(name="nightly", cron="0 3 * * *", task="t", queue="mail")
        plan_b = msgspec.structs.replace(plan, cron="0 4 * * *")
        await rig.store.seed_schedule(plan, 4e9)
        await rig.store.put_schedule(plan_b, 5e9, new=False)
        await rig.store.put_schedule(msgspec.structs.replace(plan, name="live"), 4e9, new=True)
        await rig.store.set_schedule("nightly", paused=True)

    pair.here.visit(fill)
    pair.there.visit(lambda rig: rig.store.set_queue("kept", {"max_workers": 9}))
    done = pair.copy()
    assert (done["settings"], done["kept"]) == (5, ["queue kept"])

    async def check(rig: Rig) -> None:
        queues = {each.name: each for each in await rig.store.queues()}
        assert (queues["mail"].max_workers, queues["mail"].paused) == (3, True)
        assert queues["kept"].max_workers == 9
        assert [each.batch for each in await rig.store.tasks()] == [7]
        assert [(each.rate, each.burst) for each in await rig.store.budgets()] == [(2.0, 4)]
        live, schedule = await rig.store.schedules()
        assert (schedule.name, schedule.next_at, schedule.paused) == ("nightly", 5e9, True)
        assert (schedule.live, schedule.cron) == (True, "0 4 * * *")
        assert schedule.declared is not None
        assert (schedule.declared.cron, live.live, live.declared) == ("0 3 * * *", True, None)

    pair.there.visit(check)


def test_a_copy_that_was_interrupted_is_repeated_and_adds_what_is_missing(pair: Pair) -> None:
    """The map's writer fails after the first step: the target has some of the jobs, the source is shut."""
    from windlass.store.factory import make_store

    async def fill(rig: Rig) -> None:
        await rig.add(*["t"] * 2500)

    async def broken(rig: Rig) -> None:
        here: Any = make_store(pair.here.url)
        await here.open()
        told = []

        def mapped(old: int, new: int, status: str) -> None:
            told.append(old)
            if len(told) > 1500:
                raise KeyboardInterrupt

        try:
            with pytest.raises(KeyboardInterrupt):
                await Copy(here, rig.store, mapped=mapped).run("there")  # type: ignore[arg-type]
        finally:
            await here.close()

    pair.here.visit(fill)
    pair.there.visit(broken)
    with pytest.raises(StoreMoved, match="being copied"):
        pair.here.visit(lambda rig: rig.one("late"))
    done = pair.copy()
    assert (done["jobs"], done["repeated"]) == (500, 2000)
    assert pair.there.visit(lambda rig: rig.depth()).ready == 2500
    assert pair.copy()["repeated"] == 2500
    assert len(set(pair.ids().values())) == 2500


def test_the_source_takes_nothing_more_until_it_is_reopened(pair: Pair) -> None:
    pair.here.visit(lambda rig: rig.one("t"))
    pair.copy()
    with pytest.raises(StoreMoved, match="copied to"):
        pair.here.visit(lambda rig: rig.one("late"))
    with pytest.raises(StoreMoved):
        pair.here.visit(lambda rig: rig.worker())
    undo = f"windlass copy {pair.here.url} --reopen"
    assert undo in pair.here.refused("enqueue", "t")
    asyncio.run(_refused_as_moved(Windlass(pair.here.url)))
    assert windlass(*undo.split()[1:]).exit_code == 0
    assert pair.here.visit(lambda rig: rig.one("late")).status == "enqueued"


async def _refused_as_moved(app: Windlass) -> None:
    """A worker ends, since to ask again would not help; who enqueues over HTTP is told what has happened."""
    async with visiting(app) as visitor:
        answer = await visitor.post("/api/jobs", json={"task": "t"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (409, "store_moved")
    async with within(10):
        with pytest.raises(StoreMoved, match="copied to"):
            await app.worker(["default"]).run()


def test_live_workers_are_refused_and_their_jobs_taken_by_force(pair: Pair) -> None:
    async def fill(rig: Rig) -> None:
        worker = await rig.worker()
        await rig.add("t", "t")
        await rig.claim(worker, limit=1)

    pair.here.visit(fill)
    assert json.loads(windlass("copy", pair.here.url, pair.there.url, "--dry-run", "--json").stdout) == {
        "ready": 1,
        "running": 1,
    }
    assert "stop all workers and producers" in pair.refused()
    assert pair.here.visit(lambda rig: rig.one("t")).status == "enqueued"  # nothing was shut
    assert pair.copy("--force")["jobs"] == 3
    assert pair.there.visit(lambda rig: rig.depth()).ready == 3


def test_a_twin_there_stands_for_the_job_from_here(pair: Pair) -> None:
    pair.here.visit(lambda rig: rig.one("t", unique_key="k"))
    twin = pair.there.visit(lambda rig: rig.one("t", unique_key="k")).id
    done = pair.copy()
    assert (done["jobs"], done["skipped"]) == (0, 1)
    assert list(pair.ids().values()) == [twin]


def test_a_twin_that_runs_there_runs_again_for_the_job_from_here(pair: Pair) -> None:
    """It is no job of its own there, and is counted as left out."""

    async def run_twin(rig: Rig) -> int:
        twin = await rig.one("t", unique_key="k")
        await rig.run(await rig.worker(), twin.id)
        return twin.id

    pair.here.visit(lambda rig: rig.one("t", unique_key="k"))
    twin = pair.there.visit(run_twin)
    done = pair.copy()
    assert (done["jobs"], done["skipped"], done["repeated"]) == (0, 1, 0)
    assert list(pair.ids().values()) == [twin]


def test_it_goes_one_way_only_and_names_what_is_missing(pair: Pair, tmp_path: Path) -> None:
    other = windlass("copy", pair.here.url, f"sqlite:///{tmp_path.as_posix()}/b.db")
    assert (other.exit_code, "windlass backup" in other.stderr) == (1, True)
    none = windlass("copy", f"sqlite:///{tmp_path.as_posix()}/none.db", pair.there.url)
    assert (none.exit_code, "no such file" in none.stderr) == (1, True)
    nowhere = windlass("copy", pair.here.url)
    assert (nowhere.exit_code, "goes from a SQLite file to PostgreSQL" in nowhere.stderr) == (1, True)
    given = windlass("copy", pair.here.url, "--dry-run", WINDLASS_DATABASE_URL=pair.there.url)
    assert given.stdout == "would copy: nothing\n"


def test_the_map_never_replaces_the_store(pair: Pair, tmp_path: Path) -> None:
    kept = (tmp_path / "jobs.db").read_bytes()
    assert "is the store itself" in pair.refused("--map", str(tmp_path / "jobs.db"))
    assert (tmp_path / "jobs.db").read_bytes() == kept
