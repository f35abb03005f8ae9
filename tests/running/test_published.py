"""Where a job goes that is enqueued by name, while its code is elsewhere [E5]."""

import asyncio

import pytest

from windlass import Windlass
from windlass.running.published import KEEP, MAX_NAMES, PublishedQueues
from windlass.store.protocol import Store


def producer_of(other: Windlass, **settings: dict[str, str]) -> Windlass:
    """An app that has none of the tasks, on the same database."""
    other._store_handle()  # which makes the one in memory
    return Windlass(other.settings.database_url, store=other._given, **settings)  # type: ignore[arg-type]


async def test_e5_a_job_by_name_goes_where_live_workers_say(any_app: Windlass) -> None:
    @any_app.task(name="mail.send", queue="mail")
    async def send(to: str) -> str:
        return to

    @any_app.task(name="load", queue="imports")
    async def load() -> None: ...

    async with producer_of(any_app) as producer:
        before = await producer.aenqueue("mail.send", "ann")
        assert (await before.arecord()).queue == "default"
    async with any_app.worker(["mail"]), producer_of(any_app) as producer:
        job = await producer.aenqueue("mail.send", "bob")
        assert await job.aresult(30) == "bob"
        assert (await job.arecord()).queue == "mail"
        many = await producer.named("mail.send").aenqueue_many([("cid",), ("dan",)])
        assert {(await producer.job(id).arecord()).queue for id in many} == {"mail"}
        # Nobody serves it yet, but those who know the task know where it belongs.
        assert (await (await producer.aenqueue("load")).arecord()).queue == "imports"
        assert (await (await producer.aenqueue("no.such")).arecord()).queue == "default"
    async with any_app.worker(["mail"]), producer_of(any_app, routes={"mail.*": "post"}) as producer:
        assert (await (await producer.aenqueue("mail.send", "eve")).arecord()).queue == "post"
        explicit = await producer.named("mail.send").using(queue="own").aenqueue("fay")
        assert (await explicit.arecord()).queue == "own"


def test_e5_the_same_without_a_loop(any_app: Windlass) -> None:
    @any_app.task(name="mail.send", queue="mail")
    def send(to: str) -> str:
        return to

    with any_app.worker(["mail"]), producer_of(any_app) as producer:
        job = producer.enqueue("mail.send", "bob")
        assert job.result(30) == "bob"
        assert job.record().queue == "mail"
        (id,) = producer.named("mail.send").enqueue_many([("cid",)])
        assert producer.job(id).record().queue == "mail"


async def test_e5_a_misspelt_task_is_told_once(any_app: Windlass, caplog: pytest.LogCaptureFixture) -> None:
    """[E5] The job is made all the same: a deploy may be under way."""

    @any_app.task(name="mail.send")
    async def send(to: str) -> None: ...

    async with any_app:
        for name in ("mail.sned", "mail.sned", "reports.build", "mail.send"):
            await any_app.aenqueue(name, "ann")
    said = [record.getMessage() for record in caplog.records if record.name == "windlass"]
    assert said == ["no task mail.sned is known here or to a live worker; did you mean mail.send?"]


async def test_e5_a_producer_without_code_is_told_what_live_workers_know(
    any_app: Windlass, caplog: pytest.LogCaptureFixture
) -> None:
    """[E5] Those who enqueue by name have none of the tasks themselves."""

    @any_app.task(name="mail.send", queue="mail")
    async def send(to: str) -> None: ...

    async with producer_of(any_app) as producer:
        await producer.aenqueue("mail.snd", "ann")  # nobody can tell
    async with any_app.worker(["mail"]), producer_of(any_app) as producer:
        for name in ("mail.sned", "mail.sned", "reports.build"):
            await producer.aenqueue(name, "ann")
        await asyncio.to_thread(lambda: producer.named("mail.sendd").enqueue_many([("bob",)]))
    said = [record.getMessage() for record in caplog.records if record.name == "windlass"]
    assert said == [
        f"no task {name} is known here or to a live worker; did you mean mail.send?"
        for name in ("mail.sned", "mail.sendd")
    ]


def test_e5_a_misspelt_task_is_told_of_in_tests(caplog: pytest.LogCaptureFixture) -> None:
    app = Windlass("sqlite:///:memory:")

    @app.task(name="mail.send")
    def send(to: str) -> None: ...

    with app.testing():
        app.enqueue("mail.sned", "ann")
    assert "did you mean mail.send?" in caplog.text


async def test_e5_the_apps_own_code_is_not_overruled(any_app: Windlass) -> None:
    """[E5] What it says itself comes first, also where that is `default`, and costs no question."""

    @any_app.task(name="mail.send", queue="mail")
    async def send() -> None: ...

    own = producer_of(any_app)

    @own.task(name="mail.send")
    async def send_plainly() -> None: ...

    async with any_app.worker(["mail"]), own:
        assert (await (await own.aenqueue("mail.send")).arecord()).queue == "default"


async def test_e5_the_store_is_asked_once_in_some_seconds(app: Windlass) -> None:
    asked = []

    async def published(store: Store) -> None:
        find = store.published_queue

        async def count(task: str) -> str | None:
            asked.append(task)
            return await find(task)

        store.published_queue = count  # type: ignore[method-assign]

    async with app:
        await app._store_handle().acall(published)
        for _ in range(5):
            await app.aenqueue("a")
        await app.aenqueue("b")
    assert asked == ["a", "b"]


def test_an_answer_is_kept_for_some_seconds_and_not_for_ever() -> None:
    now = 100.0
    queues = PublishedQueues(clock=lambda: now)
    assert queues.get("a") is None
    assert (queues.keep("a", "mail"), queues.keep("b", None)) == ("mail", "default")
    assert (queues.get("a"), queues.get("b")) == ("mail", "default")
    now += KEEP
    assert queues.get("a") is None


def test_names_from_outside_do_not_pile_up() -> None:
    queues = PublishedQueues()
    for number in range(MAX_NAMES + 5):
        queues.keep(f"t{number}", None)
    assert len(queues._known) <= MAX_NAMES
    assert queues.get(f"t{MAX_NAMES + 4}") == "default"
