"""Rollups: what processes tell, folded into the rows of charts [M1]."""

import asyncio
import itertools

import pytest

from tests.conformance.kit import Rig
from windlass.core.rollup import EVER, HOUR, KEPT, MINUTE, Sample
from windlass.store.protocol import Store
from windlass.store.records import Report, Rolled

SOURCE = 77
_numbers = itertools.count(1)


def sample(at: int, queue: str = "mail", task: str = "send", *, succeeded: int = 1, ms: int = 40) -> Sample:
    """So many runs that succeeded, each of one bucket."""
    runs = {ms: succeeded}
    return Sample(at=at, queue=queue, task=task, counts={"succeeded": succeeded}, waits={-9: 1}, runs=runs)


async def tell(store: Store, *samples: Sample, source: int = SOURCE) -> float:
    """Tell what has not been told before."""
    return await store.report(source, next(_numbers), Report(samples=samples))


async def minute(store: Store) -> int:
    """The present minute, by the store's clock."""
    now = int(await store.now())
    return now - now % MINUTE


async def everything(store: Store) -> list[list[Sample]]:
    """Every row of two queues and their tasks."""
    asked = [("", ""), *itertools.product(("mail", "load"), ("", "send", "read"))]
    rows = [
        await store.measured(span, 0, 2**40, queue=queue, task=task)
        for span in (MINUTE, HOUR)
        for queue, task in asked
    ]
    return [*rows, await store.totals()]


def places(samples: list[Sample]) -> dict[tuple[str, str], dict[str, int]]:
    """What was counted, by queue and task."""
    return {(sample.queue, sample.task): sample.counts for sample in samples}


async def test_telling_answers_with_the_time(store: Store) -> None:
    """By the store's clock: a process learns how far its own is off."""
    before = await store.now()
    at = await store.report(SOURCE, 1, Report())
    assert before <= at <= await store.now()


async def test_what_was_told_is_folded_into_every_row_it_counts_in(store: Store) -> None:
    """[M1] Minute, hour and all time; for the task, its queue and everything."""
    at = await minute(store)
    await tell(store, sample(at, succeeded=2), sample(at, task="read"), sample(at, queue="load", task="send"))
    assert (await everything(store))[0] == []
    rolled = await store.rollup()
    assert rolled.folded == 1
    assert rolled.rows == 3 * 6
    assert not rolled.more
    for span in (MINUTE, HOUR):
        begin = at - at % span
        for queue, task, succeeded in (
            ("mail", "send", 2), ("mail", "read", 1), ("mail", "", 3), ("load", "", 1), ("", "", 4),
        ):  # fmt: skip
            (row,) = await store.measured(span, begin, begin + span, queue=queue, task=task)
            assert (row.at, row.queue, row.task) == (begin, queue, task)
            assert row.counts == {"succeeded": succeeded}
            assert row.runs == {40: succeeded}
    assert places(await store.totals()) == {
        ("", ""): {"succeeded": 4},
        ("load", ""): {"succeeded": 1},
        ("load", "send"): {"succeeded": 1},
        ("mail", ""): {"succeeded": 3},
        ("mail", "read"): {"succeeded": 1},
        ("mail", "send"): {"succeeded": 2},
    }
    assert {row.at for row in await store.totals()} == {0}


async def test_what_belongs_to_no_task_is_counted_once_in_everything(store: Store) -> None:
    """[M1] Workers that were lost, say."""
    await tell(store, Sample(at=await minute(store), counts={"lost": 1}))
    await store.rollup()
    assert places(await store.totals()) == {("", ""): {"lost": 1}}


async def test_telling_twice_is_telling_once(store: Store) -> None:
    """[M1] An answer may be lost; the same report is sent again then, also after it was folded."""
    at = await minute(store)
    report = Report(samples=[sample(at)])
    for _ in range(2):
        await store.report(SOURCE, 5, report)
    await store.rollup()
    await store.report(SOURCE, 5, report)
    assert (await store.rollup()).folded == 0
    assert places(await store.totals())[("", "")] == {"succeeded": 1}


async def test_a_number_below_one_that_was_seen_is_an_old_report(store: Store) -> None:
    """[M1] Numbers may leave gaps, but only grow. Each source has its own."""
    at = await minute(store)
    await store.report(SOURCE, 5, Report(samples=[sample(at)]))
    await store.report(SOURCE, 3, Report(samples=[sample(at, succeeded=100)]))
    await store.report(SOURCE + 1, 3, Report(samples=[sample(at, succeeded=10)]))
    await store.report(SOURCE, 9, Report(samples=[sample(at)]))
    await store.rollup()
    assert places(await store.totals())[("", "")] == {"succeeded": 12}


async def test_rolling_up_twice_changes_nothing(store: Store) -> None:
    """[M1] What was folded is forgotten in the same step."""
    await tell(store, sample(await minute(store)))
    await store.rollup()
    before = await everything(store)
    assert await store.rollup() == Rolled()
    assert await everything(store) == before


async def test_rolling_up_twice_at_once_counts_once(store: Store) -> None:
    """[M1] Two who believe that they lead do no harm."""
    at = await minute(store)
    for _ in range(6):
        await tell(store, sample(at))
    done = await asyncio.gather(*(store.rollup(2) for _ in range(6)))
    while (last := await store.rollup()).folded:
        done.append(last)
    assert sum(rolled.folded for rolled in done) == 6
    assert places(await store.totals())[("", "")] == {"succeeded": 6}


async def test_in_steps_it_comes_to_the_same(store: Store) -> None:
    """[M1] A bounded step leaves the rest for the next one."""
    at = await minute(store)
    for n in range(5):
        await tell(store, sample(at, succeeded=n + 1), sample(at + 60 * n, task="read", ms=n))
    first = await store.rollup(limit=2)
    assert (first.folded, first.more) == (2, True)
    last = await store.rollup()
    assert (last.folded, last.more) == (3, False)
    assert places(await store.totals())[("mail", "")] == {"succeeded": 20}
    (ever,) = [row for row in await store.totals() if (row.queue, row.task) == ("mail", "read")]
    assert ever.runs == dict.fromkeys(range(5), 1)
    assert ever.waits == {-9: 5}


async def test_one_asks_for_a_span_of_time(store: Store) -> None:
    """[M1] Rows that begin at `since` or later and before `until`, by time; none where nothing happened."""
    at = await minute(store) - 600
    for after in (180, 0, 60):
        await tell(store, sample(at + after))
    await store.rollup()

    async def found(since: float, until: float, **where: str) -> list[int]:
        return [row.at - at for row in await store.measured(MINUTE, since, until, **where)]

    assert await found(at, at + 181) == [0, 60, 180]
    assert await found(at, at + 180, queue="mail") == [0, 60]
    assert await found(at + 0.5, at + 180, queue="mail", task="send") == [60]
    assert await found(at + 61, at + 180) == []
    assert await found(at, at + 181, queue="nobody") == []


async def test_rows_that_have_outlived_their_time_go(rig: Rig) -> None:
    """[M1] Minutes after 30 days, hours after a year, all time never."""
    store = rig.store
    await tell(store, sample(await minute(store)))
    await store.rollup()
    await rig.clock.advance(KEPT[MINUTE] + 2 * MINUTE)
    young = await minute(store)
    await tell(store, sample(young))
    assert (await store.rollup()).removed == 3
    assert [row.at for row in await store.measured(MINUTE, 0, 2**40)] == [young]
    assert len(await store.measured(HOUR, 0, 2**40)) == 2
    await rig.clock.advance(KEPT[HOUR] + 2 * HOUR)
    while (await store.rollup()).more:
        pass
    assert await store.measured(MINUTE, 0, 2**40) == await store.measured(HOUR, 0, 2**40) == []
    assert places(await store.totals())[("", "")] == {"succeeded": 2}


async def test_what_is_told_late_goes_where_it_belongs(store: Store) -> None:
    """[M1] Rows of a minute that were rolled up already are added to."""
    at = await minute(store) - 3 * HOUR
    for _ in range(2):
        await tell(store, sample(at))
        await store.rollup()
    (row,) = await store.measured(MINUTE, at, at + MINUTE, queue="mail", task="send")
    assert row.counts == {"succeeded": 2}


async def test_telling_is_not_folded_before_the_rollup(store: Store) -> None:
    """[M1] And it shows how much there is to do."""
    assert (await store.health()).reports == 0
    for _ in range(3):
        await tell(store, sample(await minute(store)))
    assert (await store.health()).reports == 3
    assert await store.totals() == []
    await store.rollup()
    assert (await store.health()).reports == 0


async def test_large_reports_are_taken(store: Store) -> None:
    """[M1] A process that serves many tasks, with histograms as wide as they get."""
    at = await minute(store)
    wide = dict.fromkeys(range(-30, 130), 2**40)
    many = [Sample(at=at, queue="q", task=f"t{n}", runs=wide, waits=wide) for n in range(100)]
    await tell(store, *many)
    assert (await store.rollup()).rows == 3 * 102
    (row,) = await store.measured(MINUTE, at, at + 1, queue="q")
    assert row.runs == dict.fromkeys(wide, 100 * 2**40)


async def test_ever_is_no_span_to_ask_for_by_time(store: Store) -> None:
    """Its one row stands at 0; `totals` is the way to it."""
    await tell(store, sample(await minute(store)))
    await store.rollup()
    assert [row.at for row in await store.measured(EVER, 0, 1, queue="mail")] == [0]


@pytest.mark.parametrize("source", [1, 2**63 - 1])
async def test_any_id_may_tell(store: Store, source: int) -> None:
    """It needs no lease: also who was never a worker, or is one no longer."""
    await tell(store, sample(await minute(store)), source=source)
    assert (await store.rollup()).folded == 1


BAD = {
    "a count that there is not": Sample(at=60, counts={"a\0b": 1}),
    "a long name": Sample(at=60, queue="q" * 65, counts={"claims": 1}),
    "no name": Sample(at=60, task="Of All People", counts={"claims": 1}),
    "no time": Sample(at=-60, counts={"claims": 1}),
    "no bucket": Sample(at=60, runs={2**40: 1}),
    "too much": Sample(at=60, counts={"claims": 2**63 - 1}),
    "less than nothing": Sample(at=60, counts={"claims": -1}),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
async def test_what_cannot_be_counted_stops_nobody(
    store: Store, bad: Sample, caplog: pytest.LogCaptureFixture
) -> None:
    """[M1] It is dropped with a warning; what was told with it, before and after it is counted."""
    for samples in ([sample(60)], [sample(60), bad, sample(60)], [sample(60)]):
        await tell(store, *samples)
    assert (await store.rollup()).folded == 3
    assert await store.rollup() == Rolled()
    assert places(await store.totals()) == {
        place: {"succeeded": 4} for place in (("", ""), ("mail", ""), ("mail", "send"))
    }
    assert "1 of 3 samples of a report" in caplog.text
