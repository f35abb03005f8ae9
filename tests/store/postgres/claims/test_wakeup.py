"""The worker marks the lane idle, then looks; the producer draws its number, then looks [rule 10]."""

import asyncio
from typing import Any

import pytest

from tests.stopwatch import Stopwatch, within
from tests.store.postgres.kit import Base, Session
from windlass.store.postgres.connections import listener
from windlass.store.settings import StoreSettings

CUT = """
SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' AND pid <> $1
"""
LISTENERS = """
SELECT count(*) = $1 FROM pg_stat_activity WHERE query ILIKE 'LISTEN%' AND datname = current_database()
"""
IDLE = "SELECT pg_sequence_last_value(idle) FROM windlass.lane WHERE id = $1"


class Ear:
    """Listens as a worker's process does."""

    def __init__(self) -> None:
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    async def listen(self, session: Session) -> None:
        """From now on, whatever is said on the channel."""
        await session.connection.add_listener("windlass", self._on_word)

    def _on_word(self, _connection: Any, _pid: int, _channel: str, word: Any) -> None:
        self.heard.put_nowait(word)

    async def words(self, session: Session) -> list[str]:
        """All that was said up to now: a word of one's own comes last."""
        await session.run("SELECT pg_notify('windlass', 'last')")
        words: list[str] = []
        async with within(10):
            while (word := await self.heard.get()) != "last":
                words.append(word)
        return words


async def listening(base: Base) -> tuple[Ear, Session]:
    """An ear on a session of its own."""
    ear, session = Ear(), await base.session()
    await ear.listen(session)
    return ear, session


async def test_a_producer_that_looked_before_the_mark_was_set_is_seen_by_the_worker(base: Base) -> None:
    """[rule 10] It does not notify; so the worker must not call the lane empty."""
    lane, worker = await base.lane(), await base.worker()
    ear, session = await listening(base)
    await base.look.enqueue()
    await base.look.enqueue()
    assert len((await base.claim(lane, worker)).jobs) == 2
    assert await base.look.value(IDLE, lane) == 0
    await ear.words(session)
    (producer,) = await base.sessions(1)
    await producer.begin()
    job = await producer.enqueue()  # number drawn, mark read: not idle
    assert (await base.claim(lane, worker)).status == "pending"  # mark set, position read: beyond the cursor
    assert await base.look.value(IDLE, lane) == 1
    await producer.commit()
    assert await ear.words(session) == []
    assert (await base.claim_late(lane, worker)).ids == [job]


async def test_a_lane_whose_numbers_are_beyond_its_cursor_is_not_called_empty(base: Base) -> None:
    """[rule 10] An idle poll has just gone by, so the next one writes nothing; it sees the number still."""
    lane, worker = await base.lane(), await base.worker()
    (producer,) = await base.sessions(1)
    await producer.begin()
    await producer.enqueue()
    await producer.rollback()
    assert await base.drain(lane, worker) == []
    await producer.begin()
    job = await producer.enqueue()
    assert (await base.claim(lane, worker)).status == "pending"
    await producer.commit()
    assert (await base.claim_late(lane, worker)).ids == [job]


async def test_a_producer_that_looks_after_the_mark_was_set_notifies(base: Base) -> None:
    """[rule 10] And only when it commits: a rollback wakes nobody."""
    lane, worker = await base.lane(), await base.worker()
    ear, session = await listening(base)
    assert (await base.claim(lane, worker)).status == "empty"
    (producer,) = await base.sessions(1)
    await producer.begin()
    await producer.enqueue()
    await producer.rollback()
    assert await ear.words(session) == []
    await producer.begin()
    await producer.enqueue()
    assert await ear.words(session) == []
    await producer.commit()
    assert await ear.words(session) == [base.queue]


async def test_a_lone_job_leaves_the_mark_for_the_next_one(base: Base) -> None:
    """[rule 10] Nothing was drawn beyond it, so nobody need look again: the next enqueue notifies."""
    lane, worker = await base.lane(), await base.worker()
    ear, session = await listening(base)
    for _ in range(3):
        await base.look.enqueue()
        assert await ear.words(session) == [base.queue]
        await asyncio.sleep(0.003)  # longer than the pause after which a job counts as a lone one
        assert (await base.claim(lane, worker)).status == "alone"
        assert await base.look.value(IDLE, lane) == 1


async def test_a_job_with_a_number_drawn_beyond_it_is_not_alone(base: Base) -> None:
    """[rule 10] Its producer may have looked before the mark was set: the worker looks again."""
    lane, worker = await base.lane(), await base.worker()
    (producer,) = await base.sessions(1)
    await base.look.enqueue()
    await producer.begin()
    job = await producer.enqueue()
    assert (await base.claim(lane, worker)).status == "jobs"
    assert await base.look.value(IDLE, lane) == 0
    assert (await base.claim(lane, worker)).status == "pending"
    await producer.commit()
    assert (await base.claim_late(lane, worker)).ids == [job]


async def test_a_job_that_is_claimed_late_out_of_a_hole_with_others_missing_is_not_alone(base: Base) -> None:
    """[rule 10] The other producers have read the mark already."""
    lane, worker = await base.lane(), await base.worker()
    first, second = await base.sessions(2)
    for producer in (first, second):
        await producer.begin()
        await producer.enqueue()
    await base.look.enqueue()
    assert (await base.claim(lane, worker)).status == "jobs"
    assert (await base.claim(lane, worker)).status == "pending"
    await first.commit()
    found = await base.claim_late(lane, worker)
    assert (found.status, len(found.jobs), await base.holes(lane)) == ("jobs", 1, 1)
    await second.commit()
    assert len(await base.drain(lane, worker)) == 1


async def test_after_a_lone_job_a_worker_waits_without_looking_again(alone: Base) -> None:
    """[rule 10] A look would find the lane locked. What comes meanwhile wakes it: no word is lost between the
    claim and the wait."""
    lane = await alone.lane()
    store, (other,) = await alone.store(), await alone.sessions(1)
    worker, queues = await alone.worker(), [alone.queue]
    await store.wait(queues, 5)
    assert await store.claim(worker, queues, 10) == []
    for _ in range(3):
        await alone.look.enqueue()
        assert await store.wait(queues, 5)
        await asyncio.sleep(0.003)  # see above
        assert len(await store.claim(worker, queues, 10)) == 1
        await other.begin()
        await other.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
        assert await store.claim(worker, queues, 10) == []
        assert await store.wait(queues, 0.05) is False
        await other.rollback()
    assert await store.claim(worker, queues, 10) == [], "it has waited, so it looks"


async def test_a_lone_job_does_not_hide_one_in_a_lane_that_was_not_asked(alone: Base) -> None:
    """[rule 10] [C2] The words of both were heard before the claim, which had room for one."""
    for priority in (0, 2):
        await alone.lane(priority=priority)
    store, worker, queues = await alone.store(), await alone.worker(), [alone.queue]
    await store.wait(queues, 5)
    assert await store.claim(worker, queues, 10) == []
    ear, session = await listening(alone)
    for name in ("urgent", "normal"):
        await alone.look.enqueue(priority=name)
    assert len(await ear.words(session)) == 2
    await asyncio.sleep(0.003)  # see above
    assert [claim.priority for claim in await store.claim(worker, queues, 1)] == [0]
    assert [claim.priority for claim in await store.claim(worker, queues, 1)] == [2]


async def test_the_mark_obeys_no_transaction(base: Base) -> None:
    """[rule 10] A claim that failed after it had set the mark has set it all the same."""
    lane, worker = await base.lane(), await base.worker()
    await base.look.enqueue()
    await base.claim(lane, worker)
    (claimer,) = await base.sessions(1)
    await claimer.begin()
    await claimer.run("SELECT pg_advisory_xact_lock(windlass.lock_space(), $1)", lane)
    await claimer.row("SELECT * FROM windlass.claim_take($1, $2, 1)", lane, worker)
    await claimer.rollback()
    assert await base.look.value(IDLE, lane) == 1


async def test_a_busy_lane_is_not_worth_a_notification(base: Base) -> None:
    """[rule 10] Each NOTIFY takes a lock that all committers share."""
    lane, worker = await base.lane(), await base.worker()
    ear, session = await listening(base)
    await base.look.enqueue()
    await base.look.enqueue()
    assert await ear.words(session) == [base.queue] * 2, "a lane is idle from the start"
    await base.claim(lane, worker)
    for _ in range(20):
        await base.look.enqueue()
    assert await ear.words(session) == []
    await base.drain(lane, worker)
    await base.look.enqueue()
    assert await ear.words(session) == [base.queue]


async def test_a_job_that_comes_between_the_empty_claim_and_the_wait_wakes_the_worker(alone: Base) -> None:
    """[rule 10] The word was heard before anybody waited for it; it counts."""
    await alone.lane()
    store = await alone.store()
    worker = await alone.worker()
    queues = [alone.queue]
    assert await store.wait(queues, 5), "a listener that begins now may have missed something"
    ear, session = await listening(alone)
    for _ in range(3):
        assert await store.claim(worker, queues, 10) == []
        await alone.look.enqueue()
        assert await ear.words(session) == [alone.queue]
        watch = Stopwatch()
        assert await store.wait(queues, 5)
        assert watch.seconds() < 2
        (claim,) = await store.claim(worker, queues, 10)
        assert len(claim.jobs) == 1
    assert await store.claim(worker, queues, 10) == []
    assert await store.wait(queues, 0.05) is False


async def test_a_listener_that_was_cut_off_is_made_anew(alone: Base) -> None:
    """[rule 10] [fault 18] The wait after it says "look", and the one after that hears again."""
    await alone.lane()
    store = await alone.store()
    worker = await alone.worker()
    queues = [alone.queue]
    await store.wait(queues, 5)
    assert await store.claim(worker, queues, 10) == []
    assert await alone.look.value(CUT, alone.look.pid) == 1
    await alone.look.enqueue()
    async with within(4):
        while not await store.claim(worker, queues, 10):
            await store.wait(queues, 5)
    assert await store.claim(worker, queues, 10) == []
    await alone.look.enqueue()
    watch = Stopwatch()
    assert await store.wait(queues, 5)
    assert watch.seconds() < 2


async def test_who_waits_when_the_listener_is_cut_off_looks_at_once(alone: Base) -> None:
    """[rule 10] [fault 18] The wait was made in the belief that a word would come, and ends with it."""
    await alone.lane()
    store, worker, queues = await alone.store(), await alone.worker(), [alone.queue]
    await store.wait(queues, 5)
    assert await store.claim(worker, queues, 10) == []
    waiter = asyncio.create_task(store.wait(queues, 30))
    await alone.until(LISTENERS, 1)
    watch = Stopwatch()
    assert await alone.look.value(CUT, alone.look.pid) == 1
    assert await waiter
    assert watch.seconds() < 0.8 * listener.POLL_LISTENING


async def test_a_listener_that_is_cut_off_again_and_again_is_not_hammered(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] [fault 18] It is tried less and less often; meanwhile jobs are found by polling."""
    monkeypatch.setattr(listener, "RESTART_BASE", 60.0)
    monkeypatch.setattr(listener, "RESTART_CAP", 60.0)
    await alone.lane()
    store, worker, queues = await alone.store(), await alone.worker(), [alone.queue]
    for _ in range(2):  # the first loss is made good at once, the second is not
        await store.wait(queues, 5)
        assert await store.claim(worker, queues, 10) == []
        await alone.until(LISTENERS, 1)
        waiter = asyncio.create_task(store.wait(queues, 30))
        assert await alone.look.value(CUT, alone.look.pid) == 1
        assert await waiter
    for _ in range(3):
        assert await store.claim(worker, queues, 10) == []
        watch = Stopwatch()
        waiter = asyncio.create_task(store.wait(queues, 30))
        await asyncio.sleep(0)
        await alone.look.enqueue()
        await waiter
        (claim,) = await store.claim(worker, queues, 10)
        assert len(claim.jobs) == 1
        assert watch.seconds() < 4 * StoreSettings().idle_poll
        assert await alone.look.value(LISTENERS, 0)


async def test_a_server_that_does_not_answer_holds_up_no_wait(
    alone: Base, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[rule 10] The listener's connection is still being made when the time of the wait is over."""
    store, worker, queues = await alone.store(), await alone.worker(), [alone.queue]
    assert await store.claim(worker, queues, 10) == []
    monkeypatch.setattr(store._db, "connect", asyncio.Event().wait)
    watch = Stopwatch()
    await store.wait(queues, 0.1)
    await store.wait(queues, 30)
    assert watch.seconds() < 4 * StoreSettings().idle_poll
    beginning = store._listener._beginning
    assert beginning is not None
    beginning.cancel()


def test_many_processes_do_not_ask_all_at_once() -> None:
    """[rule 10] Each poll is up to a fifth shorter or longer."""
    polls = [listener.jittered(5.0) for _ in range(200)]
    assert 4.0 <= min(polls) < 4.5
    assert 5.5 < max(polls) <= 6.0


async def test_who_has_waited_looks(base: Base) -> None:
    """[rule 10] The last claim took a lone job and left nothing behind; then somebody called."""
    store, worker = await base.store(), await base.worker()
    await base.lane()
    assert await store.claim(worker, [base.queue], 10) == []
    for _ in range(2):
        waiting = asyncio.create_task(store.wait([base.queue], 10))
        await base.look.enqueue()
        while not await waiting:
            waiting = asyncio.create_task(store.wait([base.queue], 10))
        (claim,) = await store.claim(worker, [base.queue], 10)
        assert len(claim.jobs) == 1
