"""A listing as a walk: it looks at a bounded number of jobs a call and says how far back it has come [M3]."""

from typing import Any

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.store.records import Failure, JobFilter, Page

BOUND = 5


@pytest.fixture
def bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every store that bounds its calls looks at a handful of rows only."""
    monkeypatch.setattr("windlass.store.sqlite.listing.MAX_ROWS", BOUND)
    monkeypatch.setattr("windlass.store.postgres.listing_walk.MAX_ROWS", BOUND)
    monkeypatch.setattr("windlass.store.postgres.listing_walk.FEW_ROWS", 1)


async def pages(rig: Rig, limit: int = 50, **filters: Any) -> list[Page]:
    """All pages of a walk, the first to the last."""
    found = [await rig.store.jobs(JobFilter(**filters), limit)]
    while (cursor := found[-1].cursor) is not None:
        found.append(await rig.store.jobs(JobFilter(**filters), limit, cursor))
    return found


async def test_text_is_searched_for_in_the_payload(rig: Rig) -> None:
    """[M3] As it stands there; what would be a pattern elsewhere is text."""
    (one,) = await rig.add("t", payload='{"args":["50%_off"],"kwargs":{}}')
    (two,) = await rig.add("t", payload='{"args":["50 and off"],"kwargs":{"who":"Ada"}}')
    late = (await rig.one("t", payload='{"args":["Ada"]}', delay=60)).id

    async def ids(text: str, **filters: object) -> list[int]:
        return [job.id for job in await rig.listing(text=text, **filters)]

    assert await ids("50%_off") == [one]
    assert await ids("%") == [one]
    assert await ids("50") == [two, one]
    assert await ids("Ada") == [late, two]
    assert await ids("Ada", state=State.SCHEDULED) == [late]
    assert await ids('"who":"Ada"', task="t") == [two]
    assert await ids("ada") == []
    assert await ids("Ada", task="other") == []


async def test_text_is_found_whatever_the_blanks_between_its_tokens(rig: Rig) -> None:
    """[M3] Payloads come as SQL has written them, too."""
    (dense,) = await rig.add("t", payload='{"customer":"cust-0042","note":"a, b","at":[1,2]}')
    late = (await rig.one("t", payload='{ "customer" : "cust-0042", "at": [1,  2] }', delay=60)).id

    async def ids(text: str) -> list[int]:
        return [job.id for job in await rig.listing(text=text)]

    for shown in ('"customer": "cust-0042"', '"customer":"cust-0042"', '{\n  "customer": "cust', ": [\n 1,"):
        assert await ids(shown) == [late, dense], shown
    for shown in ('"a, b"', "a, b", '"note": "a, b", "at"', 'b", "at": [1', 'a, b",'):
        assert await ids(shown) == [dense], shown
    assert await ids('t": "cust-0042') == await ids('"cust-00 42"') == await ids('"a ; b"') == []
    assert await ids('"customer": "cust-004"') == await ids('"customer": "cust.0042"') == []


async def test_text_is_searched_for_in_the_last_failure(rig: Rig) -> None:
    """[M3] As a listing shows it, of jobs that are dead or retry."""
    worker = await rig.worker()
    declined, late = Failure("CardError", "card 30 was declined", ""), Failure("OSError", 'no "key": 7', "")

    async def failed(kind: Kind, *errors: Failure) -> int:
        (id,) = await rig.add("t", payload='{"n":1}', max_attempts=9)
        for at, error in enumerate(errors, 1):
            last = at == len(errors)
            how = kind if last else Kind.RETRY
            await rig.finish(worker, await rig.run(worker, id), how, delay=60 * last, error=error)
            if not last:
                await rig.store.promote(100)
        return id

    dead, retrying = await failed(Kind.DEAD, declined), await failed(Kind.RETRY, declined)
    other = await failed(Kind.DEAD, declined, late)

    async def ids(text: str, **filters: object) -> list[int]:
        return [job.id for job in await rig.listing(text=text, **filters)]

    for shown in ("card 30 was declined", "CardError: card 30", "CardError:card", "30 was"):
        assert await ids(shown) == [retrying, dead], shown
    assert await ids("card 30", queue="default", state=State.DEAD) == [dead]
    assert await ids("card 30", state=State.DEAD, error="CardError") == [dead]
    assert await ids('"key":7') == await ids("OSError") == [other]
    assert await ids("Card 30") == await ids("card 30", state=State.READY) == []
    assert await ids('"n": 1') == [other, retrying, dead]


async def test_a_page_says_how_many_were_looked_at_and_how_far_back(rig: Rig) -> None:
    """[M3]"""
    ids = []
    for _ in range(3):
        ids += await rig.add("t")
        await rig.clock.advance(10)
    first = await rig.store.jobs(JobFilter(), 2)
    assert [job.id for job in first.jobs] == ids[:0:-1]
    assert first.looked == 2
    assert first.back_to == pytest.approx(first.jobs[-1].enqueued_at, abs=1e-3)
    rest = await rig.store.jobs(JobFilter(), 2, first.cursor)
    assert (rest.looked, rest.cursor) == (1, None)
    assert rest.back_to == pytest.approx(rest.jobs[0].enqueued_at, abs=1e-3)
    whole = await rig.store.jobs(JobFilter(task="nobody"))
    assert (whole.jobs, whole.looked, whole.cursor) == ([], 3, None)
    assert whole.back_to == rest.back_to
    nothing = await rig.store.jobs(JobFilter(queue="nowhere", state=State.DEAD))
    assert (nothing.jobs, nothing.cursor) == ([], None)


async def test_a_search_goes_on_in_bounded_steps(rig: Rig, bounded: None) -> None:
    """[M3] What is rare is found, behind pages that are empty, and nothing twice."""
    (rare,) = await rig.add("rare", tags=("red",), payload='["needle"]')
    worker = await rig.worker()
    await rig.finish(worker, await rig.claim(worker), Kind.CANCELLED)
    await rig.clock.advance(1)
    others = await rig.add(*["t"] * 23)
    await rig.finish(worker, await rig.claim(worker))
    rarely: list[dict[str, Any]] = [{"task": "rare"}, {"tag": "red"}, {"text": "needle"}]
    for filters in (*rarely, {"state": State.CANCELLED}):
        walked = await pages(rig, **filters)
        assert [job.id for page in walked for job in page.jobs] == [rare]
        if rig.name != "memory":
            assert all(page.looked <= BOUND for page in walked)
        times = [page.back_to for page in walked if page.back_to is not None]
        assert times == sorted(times, reverse=True)
    everything = [job.id for page in await pages(rig, 3) for job in page.jobs]
    assert everything == [*others[::-1], rare]


async def test_a_page_may_go_on_for_a_while(rig: Rig, bounded: None) -> None:
    """[S5] A page that needs several steps takes them in one moment, not in one each."""
    rare = await rig.add("rare", "rare")
    await rig.add(*["t"] * 23)
    page = await rig.store.jobs(JobFilter(task="rare"), 1, within=10.0)
    assert ([job.id for job in page.jobs], page.looked >= 24) == (rare[1:], True)
    rest = await rig.store.jobs(JobFilter(task="rare"), 50, page.cursor, within=10.0)
    assert ([job.id for job in rest.jobs], rest.cursor) == (rare[:1], None)


async def test_a_walk_over_many_lanes_shows_every_job_once(rig: Rig, bounded: None) -> None:
    """[M3] More lanes than rows of one call, by time over all of them."""
    ids: list[int] = []
    for round in range(3):
        for queue in range(4):
            for priority in (1, 3):
                ids += await rig.add(f"r{round}", queue=f"q{queue}", priority=priority)
                await rig.clock.advance(1)
    for size in (1, 4, 100):
        walked = await pages(rig, size)
        assert [job.id for page in walked for job in page.jobs] == ids[::-1]
    walked = await pages(rig, 2, queue="q2")
    assert len({job.id for page in walked for job in page.jobs}) == 6


async def test_jobs_that_come_during_a_walk_are_not_in_it(rig: Rig) -> None:
    """[M3] Also where they come to a lane that the walk has not come to yet, or by the retry of another."""
    worker = await rig.worker()
    old = await rig.add("t", "t", queue="old")
    await rig.clock.advance(1)
    dead = await rig.bring(State.DEAD, worker)
    await rig.clock.advance(1)
    (new,) = await rig.add("t", queue="new")
    first = await rig.store.jobs(JobFilter(), 1)
    assert [job.id for job in first.jobs] == [new]
    await rig.clock.advance(1)
    await rig.add("t", queue="old")
    await rig.add("t", queue="new")
    await rig.one("t", delay=5)
    rest = await rig.store.jobs(JobFilter(), 50, first.cursor)
    assert [job.id for job in rest.jobs] == [dead, *old[::-1]]


@pytest.mark.parametrize("cursor", ["", "nonsense!", "bm9uc2Vuc2U=", "-1", "1.5", "x" * 500, "9" * 40, "ü"])
async def test_a_cursor_that_no_page_gave_is_refused(rig: Rig, cursor: str) -> None:
    """[M3]"""
    with pytest.raises(ValueError):
        await rig.store.jobs(JobFilter(), 5, cursor)
