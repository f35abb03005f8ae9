"""What `windlass.testing` promises to the users' tests, in sync and async ones alike."""

import asyncio
from datetime import UTC, datetime, timedelta

import pytest

from windlass import Retry, State, Windlass
from windlass.errors import ConfigurationError, InvalidArguments
from windlass.store.sqlite import SQLiteStore
from windlass.testing import Clock, assert_enqueued, assert_not_enqueued, enqueued

app = Windlass("postgresql://nobody@127.0.0.1:1/never-reached")
sent: list[str] = []


@app.task(queue="mail", retry=Retry(2, base="10s", jitter=0))
async def send(to: str, template: str = "welcome") -> str:
    sent.append(to)
    if to == "broken":
        raise ValueError("no such address")
    return f"{template} to {to}"


@app.task
def sign_up(to: str) -> None:
    send.enqueue(to)


@pytest.fixture(autouse=True)
def _nothing_sent() -> None:
    sent.clear()


def test_jobs_are_recorded_and_nothing_reaches_the_real_database() -> None:
    with app.testing() as kit:
        job = send.enqueue("a@b.c", template="hello")
        assert job.status() == State.READY
        assert sent == []
        assert isinstance(kit.store, SQLiteStore)
        assert app.run_until_idle().succeeded == 1
        assert job.result() == "hello to a@b.c"
    with app.testing():
        assert_not_enqueued(app)


async def test_the_same_in_an_async_test() -> None:
    async with app.testing():
        job = await send.aenqueue("a@b.c")
        assert_enqueued(app, send, "a@b.c")
        assert (await app.arun_until_idle()).succeeded == 1
        assert await job.aresult() == "welcome to a@b.c"


def test_assert_enqueued_looks_at_what_it_is_given() -> None:
    with app.testing():
        send.using(queue="bulk", tags=["news"]).enqueue_many([("a@b.c", "news"), ("d@e.f", "news")])
        record = assert_enqueued(app, send, "a@b.c")
        assert record.queue == "bulk"
        assert_enqueued(app, send, to="d@e.f", template="news", queue="bulk", tag="news", count=1)
        assert_enqueued(app, send, count=2)
        assert_enqueued(app, send.name, count=2)
        assert_enqueued(app, send, arguments={"to": "a@b.c"})
        assert_not_enqueued(app, send, "x@y.z")
        assert_not_enqueued(app, send, "a@b.c", queue="mail")
        assert_not_enqueued(app, send, "a@b.c", tag="other")
        assert_not_enqueued(app, sign_up)
        assert [job.payload for job in enqueued(app, send)] == [
            {"to": "a@b.c", "template": "news"},
            {"to": "d@e.f", "template": "news"},
        ]


def test_what_was_not_passed_counts_as_its_default() -> None:
    with app.testing():
        send.enqueue("a@b.c")
        assert_enqueued(app, send, "a@b.c", template="welcome")
        assert_not_enqueued(app, send, "a@b.c", template="news")


def test_assert_enqueued_by_name_compares_what_the_producer_wrote() -> None:
    with app.testing():
        app.enqueue("somewhere.else", 1, "two", three=3)
        assert_enqueued(app, "somewhere.else", 1, three=3)
        assert_not_enqueued(app, "somewhere.else", 2)


def test_a_failed_assertion_says_what_there_was() -> None:
    with app.testing():
        with pytest.raises(AssertionError, match="enqueued: nothing"):
            assert_enqueued(app, send)
        send.enqueue("a@b.c")
        with pytest.raises(
            AssertionError, match=r"send\('x@y\.z'\) on queue mail.*\n.*a@b\.c.*on mail, ready"
        ):
            assert_enqueued(app, send, "x@y.z", queue="mail")
        with pytest.raises(AssertionError, match=r"expected 2 jobs .* found 1"):
            assert_enqueued(app, send, "a@b.c", count=2)
        with pytest.raises(AssertionError, match="expected no job of anything, found 1"):
            assert_not_enqueued(app)
        with pytest.raises(InvalidArguments, match="'colour'"):
            assert_enqueued(app, send, colour="red")


def test_the_clock_moves_only_by_hand() -> None:
    with app.testing(clock=Clock(1_700_000_000)) as kit:
        job = send.using(delay="5m").enqueue("a@b.c")
        assert app.run_until_idle().succeeded == 0
        kit.clock.advance(timedelta(minutes=4, seconds=59))
        assert app.run_until_idle().succeeded == 0
        assert kit.clock.advance("1s") == 1_700_000_300
        assert app.run_until_idle().succeeded == 1
        assert job.record().finished_at == datetime.fromtimestamp(1_700_000_300, UTC)
        with pytest.raises(ValueError, match="not negative"):
            kit.clock.advance(-1)


def test_a_clock_without_a_start_begins_at_the_present() -> None:
    with app.testing() as kit:
        day = timedelta(days=1)
        assert send.using(run_at=datetime.now(UTC) - day).enqueue("a@b.c").status() == State.READY
        tomorrow = send.using(run_at=datetime.now(UTC) + day).enqueue("a@b.c")
        assert tomorrow.status() == State.SCHEDULED
        kit.clock.advance("2d")
        app.run_until_idle()
        assert tomorrow.status() == State.SUCCEEDED


def test_inline_runs_each_job_where_it_is_enqueued() -> None:
    with app.testing(inline=True) as kit:
        job = send.enqueue("a@b.c")
        assert sent == ["a@b.c"]
        assert job.result() == "welcome to a@b.c"
        sign_up.enqueue("d@e.f")  # a job that makes a job
        assert sent == ["a@b.c", "d@e.f"]
        assert_enqueued(app, send, "d@e.f")
        send.using(delay="1m").enqueue("later")
        assert "later" not in sent
        kit.clock.advance("1m")
        assert app.run_until_idle().succeeded == 1
        assert sent[-1] == "later"


def test_inline_raises_what_the_handler_raises() -> None:
    with app.testing(inline=True):
        with pytest.raises(ValueError, match="no such address"):
            send.enqueue("broken")
        assert enqueued(app, send)[0].state == State.RETRYING
        with pytest.raises(ValueError, match="no such address"):
            sign_up.enqueue("broken")


async def test_inline_in_an_async_test_runs_on_its_loop() -> None:
    loops = []

    @app.task(name="inline.where")
    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    async with app.testing(inline=True):
        await where.aenqueue()
        assert loops == [asyncio.get_running_loop()]
        where.enqueue()  # a synchronous call cannot use the loop it blocks
        assert len(loops) == 2
        with pytest.raises(ValueError, match="no such address"):
            send.enqueue("broken")


@pytest.mark.parametrize("inline", [False, True])
def test_the_settings_of_the_app_hold_in_the_block(inline: bool) -> None:
    strict = Windlass("sqlite:///:memory:", park_after=1)

    @strict.task(name="embed", retry=Retry(1))
    def embed(key: str) -> None:
        raise ValueError("no such text")

    @embed.find_gaps(key=lambda key: key)
    def missing() -> list[tuple[str]]:
        return [("bad",)]

    with strict.testing(inline=inline) as kit:
        if inline:
            with pytest.raises(ValueError, match="no such text"):
                embed.reconcile()
        else:
            assert embed.reconcile().enqueued == 1
            assert len(kit.drain(raises=False).dead) == 1
        assert embed.reconcile().parked == 1  # by default, after three deaths


def test_a_connection_is_accepted_and_ignored() -> None:
    with app.testing():
        send.using(connection=object()).enqueue("a@b.c")
        assert_enqueued(app, send, "a@b.c")


def test_blocks_do_not_nest() -> None:
    with app.testing(), pytest.raises(ConfigurationError, match="already"), app.testing():
        pass
    with app.testing():
        assert_not_enqueued(app)
