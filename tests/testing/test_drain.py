"""`kit.drain()`: what is due runs with what it enqueues, the clock moves on request, and errors come out."""

import asyncio
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest

from windlass import Dead, Items, Part, Retry, Snooze, Windlass
from windlass.testing import Clock, TestMode, enqueued

START = datetime(2026, 1, 5, 8, 30, tzinfo=UTC)


class Shop:
    """An app whose tasks note when they ran."""

    def __init__(self) -> None:
        self.app = app = Windlass("postgresql://nobody@127.0.0.1:1/never-reached")
        self.ran: list[str] = []
        app.budget("api", rate="1/m", burst=1)

        @app.task(name="ship")
        def ship(order: str) -> None:
            self.ran.append(f"ship {order}")
            remind.using(delay="1d").enqueue(order)

        @app.task(name="remind", queue="mail")
        async def remind(order: str) -> None:
            self.ran.append(f"remind {order}")

        @app.task(name="pay", retry=Retry(3, base="10s", jitter=0))
        def pay(order: str, *, failures: int = 0) -> None:
            self.ran.append(f"pay {order}")
            if self.ran.count(f"pay {order}") <= failures:
                raise ValueError(f"no money for {order}")

        @app.task(name="lose")
        def lose() -> None:
            raise Dead("for good")

        @app.task(name="doze")
        def doze() -> None:
            raise Snooze("1m")

        @app.task(name="call", budgets=["api"])
        def call() -> None:
            self.ran.append("call")

        @app.chunked(name="load", split=Items(range(4), 2), retry=Retry(2, base="10s"))
        async def load(part: Part) -> None:
            async for batch in part.batches():
                if part.index == 1 and part.attempt == 1:
                    raise KeyError("once")
                await batch.done()

        self.ship, self.remind, self.pay, self.lose = ship, remind, pay, lose
        self.doze, self.call, self.load = doze, call, load


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def kit(shop: Shop) -> Iterator[TestMode]:
    with shop.app.testing(clock=Clock(START.timestamp())) as kit:
        yield kit


def test_it_runs_what_is_due_and_what_that_enqueues(shop: Shop, kit: TestMode) -> None:
    @shop.app.task(name="order")
    def order() -> None:
        shop.ship.enqueue("a")
        shop.pay.enqueue("a")

    order.enqueue()
    ran = kit.drain()
    assert [job.task for job in ran.succeeded] == ["order", "ship", "pay"]
    assert [ran.retrying, ran.dead, ran.cancelled, ran.waiting, ran.errors] == [[]] * 5
    assert repr(ran) == "<Ran 3 succeeded (order, pay, ship)>"
    assert repr(kit.drain()) == "<Ran nothing>"
    assert enqueued(shop.app, shop.remind, "a")  # a day from now


async def test_the_same_in_an_async_test(shop: Shop, kit: TestMode) -> None:
    await shop.remind.aenqueue("a")
    assert len((await kit.adrain()).succeeded) == 1
    with pytest.raises(RuntimeError, match=r"await adrain\(\) instead"):
        kit.drain()


def test_only_these_queues(shop: Shop, kit: TestMode) -> None:
    shop.ship.enqueue("a")
    shop.remind.enqueue("b")
    assert [job.task for job in kit.drain(queues=["mail"]).succeeded] == ["remind"]
    assert shop.ran == ["remind b"]


def test_the_clock_moves_to_whatever_waits(shop: Shop, kit: TestMode) -> None:
    shop.ship.enqueue("a")
    shop.pay.using(run_at=START + timedelta(days=30)).enqueue("a")
    ran = kit.drain(advance=True)
    assert [job.task for job in ran.succeeded] == ["ship", "remind", "pay"]
    assert kit.clock() == (START + timedelta(days=30)).timestamp()


def test_the_clock_moves_by_a_time(shop: Shop, kit: TestMode) -> None:
    shop.remind.using(delay="30m").enqueue("a")
    shop.remind.using(delay="2h").enqueue("b")
    assert len(kit.drain(advance="1h").succeeded) == 1
    assert kit.clock() == (START + timedelta(hours=1)).timestamp()
    assert shop.ran == ["remind a"]


def test_what_a_job_raised_comes_out(shop: Shop, kit: TestMode) -> None:
    job = shop.pay.enqueue("a", failures=1)
    shop.lose.enqueue()
    shop.ship.enqueue("a")
    with pytest.raises(ValueError, match="no money for a") as raised:
        kit.drain()
    assert "Dead: for good" in raised.value.__notes__[0]
    assert "ship a" in shop.ran  # the others have run
    assert job.status() == "retrying"


def test_errors_are_told_where_they_are_not_raised(shop: Shop, kit: TestMode) -> None:
    shop.pay.enqueue("a", failures=1)
    shop.lose.enqueue()
    ran = kit.drain(raises=False)
    assert [job.task for job in ran.retrying] == ["pay"]
    assert [job.task for job in ran.dead] == ["lose"]
    assert [type(error) for error in ran.errors] == [ValueError, Dead]


def test_a_job_that_fails_and_then_succeeds_raises_nothing(shop: Shop, kit: TestMode) -> None:
    shop.pay.enqueue("a", failures=2)
    ran = kit.drain(advance=True)
    assert [job.attempt for job in ran.succeeded] == [3]
    assert not ran.errors
    shop.pay.enqueue("b", failures=3)
    with pytest.raises(ValueError, match="no money for b"):
        kit.drain(advance=True)


def test_a_chunked_job_stands_for_its_parts(shop: Shop, kit: TestMode) -> None:
    job = shop.load.enqueue()
    with pytest.raises(KeyError, match="once"):
        kit.drain()
    assert job.status() == "waiting"
    ran = kit.drain(advance=True)
    assert [each.id for each in ran.succeeded] == [job.id]


def test_schedules_fire_by_the_clock(shop: Shop) -> None:
    @shop.app.schedule("0 9 * * MON-FRI")
    @shop.app.task(name="report")
    def report() -> None:
        shop.ran.append("report")

    with shop.app.testing(clock=Clock(START.timestamp())) as kit:
        kit.drain()
        assert shop.ran == []
        kit.drain(advance="1h")
        assert shop.ran == ["report"]
        kit.drain(advance="6d")  # to Sunday
        assert shop.ran == ["report"] * 5
        kit.clock.advance("1d")
        kit.drain()
        assert shop.ran == ["report"] * 6
        kit.drain(advance=True)  # a schedule alone would go on for ever
        assert shop.ran == ["report"] * 6


def test_jobs_that_wait_for_tokens_are_waited_for(shop: Shop, kit: TestMode) -> None:
    shop.call.enqueue_many([(), (), ()])
    assert len(kit.drain().succeeded) == 1
    assert len(kit.drain(advance=True).succeeded) == 2


def test_what_has_no_end_says_so(shop: Shop, kit: TestMode, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("windlass.testing.draining.MAX_MOVES", 5)
    shop.doze.enqueue()
    assert [job.task for job in kit.drain().waiting] == ["doze"]
    with pytest.raises(AssertionError, match=r"moved 5 times and jobs still wait: doze; .*advance='1h'"):
        kit.drain(advance=True)


def test_hooks_are_those_of_a_worker(shop: Shop, kit: TestMode) -> None:
    opened: list[str] = []
    shop.app.on_start(lambda: opened.append("start"))
    shop.app.on_stop(lambda: opened.append("stop"))
    kit.drain()
    assert opened == ["start", "stop"]


def test_the_clock_goes_to_a_moment_and_never_back() -> None:
    clock = Clock(START.timestamp())
    assert clock.advance_to(START + timedelta(days=1)) == START.timestamp() + 86400
    assert clock.advance_to(START) == START.timestamp() + 86400
    with pytest.raises(ValueError, match="time zone"):
        clock.advance_to(datetime(2026, 1, 5))  # noqa: DTZ001


def test_a_block_may_be_entered_on_a_loop(shop: Shop) -> None:
    shop.app.schedule("0 9 * * *")(shop.doze)

    async def work() -> int:
        async with shop.app.testing():
            return len(await shop.app.schedules.arecords())

    assert asyncio.run(work()) == 1


def test_o9_an_error_that_is_not_retried_is_dead_at_once(shop: Shop, kit: TestMode) -> None:
    @shop.app.task(name="pick", retry=Retry(5, never=KeyError))
    def pick() -> None:
        shop.ran.append("pick")
        raise KeyError("x")

    job = pick.enqueue()
    ran = kit.drain(advance=True, raises=False)
    assert (shop.ran, [each.task for each in ran.dead]) == (["pick"], ["pick"])
    assert job.record().reason == "not retried: KeyError is in never"
