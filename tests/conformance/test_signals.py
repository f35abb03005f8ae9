"""Signals: a job waits for one without a slot, and takes each of them once [W2]."""

import asyncio

import pytest

from tests.conformance.kit import Rig
from windlass.core.states import Kind, State
from windlass.errors import (
    ClaimLost,
    InvalidOption,
    InvalidPayload,
    JobNotFound,
    PayloadTooLarge,
    SignalRefused,
    WorkerLost,
)
from windlass.store.records import SIGNAL, TIMEOUT, Awaited, ClaimedJob, JobChange, Once, Step, Wait

LONG = 3600.0
INTEGER = '{"type":"integer"}'


async def ask(
    rig: Rig,
    worker: int,
    job: ClaimedJob,
    signal: str = "go",
    timeout: float | None = LONG,
    no: int = 1,
    shape: str | None = None,
) -> Awaited:
    """What the handler of a job is told that waits for a signal."""
    name = f"wait:{signal}" if no == 1 else f"wait:{signal}#{no}"
    wait = Wait(name=name, signal=signal, timeout=timeout, shape=shape)
    return await rig.store.wait_for_signal(worker, job, wait)


async def waiting(
    rig: Rig, worker: int, signal: str = "go", timeout: float | None = LONG, shape: str | None = None
) -> int:
    """A job that waits for a signal; the default queue must be empty."""
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    answer = await ask(rig, worker, job, signal, timeout, shape=shape)
    assert answer.step is None
    await rig.finish(worker, job, Kind.SNOOZE, delay=answer.left or LONG)
    return id


async def state(rig: Rig, id: int) -> State:
    record = await rig.store.job(id)
    assert record is not None
    return record.state


def taken(answer: Awaited) -> tuple[str, str]:
    """How a wait ended."""
    assert answer.step is not None
    return answer.step.code, answer.step.result


async def test_w2_a_signal_wakes_its_job_and_is_taken_once(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker)
    assert await state(rig, id) is State.SCHEDULED
    assert await rig.claim(worker) == []
    assert await rig.store.signal(id, "go", '{"ok":true}') == "delivered"
    job = await rig.run(worker, id)
    assert (job.attempt, job.deaths) == (1, 0)
    first = await ask(rig, worker, job)
    assert taken(first) == (SIGNAL, '{"ok":true}')
    assert taken(await ask(rig, worker, job)) == (SIGNAL, '{"ok":true}')
    assert (await ask(rig, worker, job, no=2)).step is None
    steps = await rig.store.steps(id)
    assert [(step.name, step.code, step.result) for step in steps] == [("wait:go", SIGNAL, '{"ok":true}')]


async def test_w2_a_value_is_looked_at_where_its_job_waits_for_a_shape(rig: Rig) -> None:
    """Signals beside it are sent, whatever becomes of it; one that is refused leaves nothing."""
    worker, shape, seen = await rig.worker(), '{"type":"integer"}', list[str]()
    fitting, other = [await waiting(rig, worker, shape=shape) for _ in range(2)]
    plain = await waiting(rig, worker)
    (later,) = await rig.add("t")

    def refuses(shape: str) -> None:
        raise InvalidPayload(shape)

    sent = {fitting: seen.append, other: refuses, plain: refuses, later: refuses}
    answers = await asyncio.gather(
        *(rig.store.signal(id, "go", "7", fits=fits) for id, fits in sent.items()), return_exceptions=True
    )
    assert [answers[0], str(answers[1]), *answers[2:]] == ["delivered", shape, "delivered", "kept"]
    assert seen == [shape]
    assert await state(rig, other) is State.SCHEDULED
    with pytest.raises(InvalidPayload):
        await rig.store.signal(other, "go", "7", once=Once("key"), fits=refuses)
    assert await rig.store.signal(other, "go", "8", once=Once("key"), fits=seen.append) == "delivered"
    assert seen == [shape] * 2


async def test_w2_signals_that_come_before_their_wait_are_kept_in_order(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    assert [await rig.store.signal(id, "go", str(n)) for n in range(3)] == ["kept"] * 3
    assert await rig.store.signal(id, "other", '"else"') == "kept"
    job = await rig.run(worker, id)
    found = [taken(await ask(rig, worker, job, no=no)) for no in (1, 2, 3)]
    assert found == [(SIGNAL, "0"), (SIGNAL, "1"), (SIGNAL, "2")]
    assert (await ask(rig, worker, job, no=4)).step is None
    assert taken(await ask(rig, worker, job, "other")) == (SIGNAL, '"else"')


async def test_w2_a_signal_between_the_wait_and_the_snooze_is_not_lost(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    assert (await ask(rig, worker, job)).step is None
    assert await rig.store.signal(id, "go", "1") == "kept"
    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
    again = await rig.run(worker, id)
    assert taken(await ask(rig, worker, again)) == (SIGNAL, "1")


async def test_w2_another_signal_does_not_wake_it(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker)
    assert await rig.store.signal(id, "other", "1") == "kept"
    await rig.store.promote()
    assert await rig.claim(worker) == []
    assert await rig.store.signal(id, "go", "2") == "delivered"
    assert await rig.store.signal(id, "go", "3") == "kept"
    job = await rig.run(worker, id)
    assert taken(await ask(rig, worker, job)) == (SIGNAL, "2")


async def test_w2_a_wait_times_out_for_good(rig: Rig) -> None:
    """Counted from when it was first asked, whatever a later run asks for."""
    worker = await rig.worker()
    id = await waiting(rig, worker, timeout=100.0)
    await rig.clock.advance(60)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    await rig.clock.advance(60)
    await rig.store.promote()
    job = await rig.run(worker, id)
    assert taken(await ask(rig, worker, job, timeout=100.0)) == (TIMEOUT, "null")
    assert await rig.store.signal(id, "go", "1") == "kept"
    assert taken(await ask(rig, worker, job, timeout=100.0)) == (TIMEOUT, "null")
    assert taken(await ask(rig, worker, job, no=2)) == (SIGNAL, "1")


async def test_w2_a_signal_that_is_there_is_taken_though_the_time_is_over(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker, timeout=100.0)
    await rig.clock.advance(200)
    assert await rig.store.signal(id, "go", "1") == "delivered"
    await rig.store.promote()
    job = await rig.run(worker, id)
    assert taken(await ask(rig, worker, job, timeout=100.0)) == (SIGNAL, "1")


async def test_w2_a_wait_of_no_time_looks_for_what_is_there(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.store.signal(id, "go", "1")
    job = await rig.run(worker, id)
    assert taken(await ask(rig, worker, job, timeout=0.0)) == (SIGNAL, "1")
    assert taken(await ask(rig, worker, job, timeout=0.0, no=2)) == (TIMEOUT, "null")


async def test_w2_it_goes_on_with_the_first_of_its_waits(rig: Rig) -> None:
    """A run may wait for several things at once, and be put off for longer than one of them lasts."""
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await ask(rig, worker, job, "slow", LONG)
    await ask(rig, worker, job, "soon", 50.0)
    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
    await rig.clock.advance(60)
    await rig.store.promote()
    again = await rig.run(worker, id)
    assert taken(await ask(rig, worker, again, "soon", 50.0)) == (TIMEOUT, "null")
    assert (await ask(rig, worker, again, "slow", LONG)).left == pytest.approx(LONG - 60, abs=5)


async def test_w2_only_what_the_last_run_asked_for_wakes_it(rig: Rig) -> None:
    """A run that went another way sleeps on, and comes back to its first wait with the time that is left."""
    worker = await rig.worker()
    id = await waiting(rig, worker)
    await rig.store.signal(id, "go", "1")
    job = await rig.run(worker, id)
    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
    await rig.store.promote()
    assert await rig.claim(worker) == []
    assert await rig.store.signal(id, "go", "2") == "kept"
    await rig.store.promote()
    assert await rig.claim(worker) == []
    assert await rig.store.waits() == []


async def test_w2_a_retry_keeps_its_pause(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await ask(rig, worker, job)
    await rig.finish(worker, job, Kind.RETRY, delay=100)
    assert await rig.store.signal(id, "go", "1") == "kept"
    await rig.store.promote()
    assert await rig.claim(worker) == []
    await rig.clock.advance(120)
    await rig.store.promote()
    again = await rig.run(worker, id)
    assert taken(await ask(rig, worker, again)) == (SIGNAL, "1")


async def test_w2_signals_and_waits_survive_the_death_of_the_worker(rig: Rig) -> None:
    worker, other = await rig.worker(), await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await ask(rig, worker, job, timeout=100.0)
    await rig.die(worker)
    assert await rig.store.signal(id, "go", "1") == "kept"
    with pytest.raises((ClaimLost, WorkerLost)):
        await ask(rig, worker, job)
    again = await rig.run(other, id)
    assert taken(await ask(rig, other, again)) == (SIGNAL, "1")


async def test_w2_cancel_ends_a_waiting_job_and_a_sleeping_one(rig: Rig) -> None:
    worker = await rig.worker()
    waits = await waiting(rig, worker)
    (sleeps,) = await rig.add("t")
    job = await rig.run(worker, sleeps)
    await rig.store.save_step(worker, job, Step(name="sleep", sleep=LONG))
    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
    assert await rig.store.cancel([waits, sleeps]) == {waits: "cancelled", sleeps: "cancelled"}
    for id in (waits, sleeps):
        with pytest.raises(SignalRefused, match="cancelled") as refused:
            await rig.store.signal(id, "go", "1")
        assert refused.value.why == "ended"
    assert await rig.store.waits() == []


async def test_w2_a_cancel_of_the_run_is_stronger_than_its_wait(rig: Rig) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    job = await rig.run(worker, id)
    await ask(rig, worker, job)
    await rig.store.cancel([id])
    await rig.store.signal(id, "go", "1")
    await rig.finish(worker, job, Kind.SNOOZE, delay=LONG)
    assert await state(rig, id) is State.CANCELLED


@pytest.mark.parametrize("kind", [Kind.SUCCEEDED, Kind.DEAD, Kind.CANCELLED])
async def test_w2_a_job_that_has_ended_takes_no_signals(rig: Rig, kind: Kind) -> None:
    worker = await rig.worker()
    (id,) = await rig.add("t")
    await rig.finish(worker, await rig.run(worker, id), kind)
    with pytest.raises(SignalRefused) as refused:
        await rig.store.signal(id, "go", "1")
    assert refused.value.why == "ended"
    with pytest.raises(JobNotFound):
        await rig.store.signal(id + 12345, "go", "1")


async def test_w2_what_no_store_takes_is_refused_with_nothing_written(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker)
    with pytest.raises(PayloadTooLarge):
        await rig.store.signal(id, "go", f'"{"x" * 1024 * 1024}"')
    with pytest.raises(InvalidPayload):
        await rig.store.signal(id, "go", "{nonsense")
    for name in ("", "a#b", "a/b", "a\nb", "x" * 101):
        with pytest.raises(InvalidOption):
            await rig.store.signal(id, name, "1")
    await rig.store.promote()
    assert await rig.claim(worker) == []


async def test_w2_a_job_keeps_a_thousand_signals(rig: Rig) -> None:
    (id,) = await rig.add("t")
    for _ in range(1000):
        await rig.store.signal(id, "go", "1")
    with pytest.raises(SignalRefused) as refused:
        await rig.store.signal(id, "go", "1")
    assert refused.value.why == "full"


async def test_w2_a_token_sends_one_signal(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker)
    assert await rig.store.signal(id, "go", "1", once=Once("token", 100)) == "delivered"
    with pytest.raises(SignalRefused) as refused:
        await rig.store.signal(id, "go", "2", once=Once("token", 100))
    assert refused.value.why == "used"
    assert await rig.store.signal(id, "go", "3", once=Once("another", 100)) == "kept"


async def test_w2_a_used_token_is_known_until_its_time_is_over(rig: Rig) -> None:
    """Retention passed by meanwhile, and the job would keep another signal of that name."""
    worker = await rig.worker()
    id = await waiting(rig, worker)
    await rig.store.signal(id, "go", "1", once=Once("token", 100))
    for seconds in (0, 99):
        await rig.clock.advance(seconds)
        await rig.store.expire()
        with pytest.raises(SignalRefused) as refused:
            await rig.store.signal(id, "go", "2", once=Once("token", 100))
        assert refused.value.why == "used"
    await rig.clock.advance(2)
    await rig.store.expire()
    assert await rig.store.signal(id, "go", "3", once=Once("token", 100)) == "kept"


async def test_w2_who_waits_for_what_since_when_and_until_when(rig: Rig) -> None:
    worker = await rig.worker()
    first = await waiting(rig, worker, "go", 100.0)
    second = await waiting(rig, worker, "stop", None)
    found = await rig.store.waits()
    assert [(each.job, each.task, each.queue, each.signal) for each in found] == [
        (second, "t", "default", "stop"),
        (first, "t", "default", "go"),
    ]
    assert found[0].until is None
    assert found[1].until == pytest.approx(found[1].since + 100, abs=1)
    assert [each.job for each in await rig.store.waits(job=first)] == [first]
    assert [each.job for each in await rig.store.waits(signal="stop")] == [second]
    assert [each.job for each in await rig.store.waits(1, before=found[0].number)] == [first]
    record = await rig.store.job(first)
    assert record is not None
    assert record.reason is not None
    assert record.reason.startswith("waits for signal go since 2")
    assert " UTC, until 2" in record.reason
    await rig.store.signal(first, "go", "1")
    assert [each.job for each in await rig.store.waits()] == [second]


async def test_w2_signals_of_many_jobs_go_with_them(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker)
    await rig.store.signal(id, "other", "1")
    await rig.store.cancel([id])
    await rig.store.delete([id])
    await rig.store.expire()
    assert await rig.store.job(id) is None
    assert await rig.store.waits() == []
    with pytest.raises(JobNotFound):
        await rig.store.signal(id, "go", "1")


async def test_w2_e8_a_wait_that_is_put_off_does_not_time_out_before(rig: Rig) -> None:
    """With its job, whose page says so; a signal still wakes it at once."""
    worker = await rig.worker()
    put_off, woken = await waiting(rig, worker, timeout=60.0), await waiting(rig, worker, timeout=60.0)
    for id in (put_off, woken):
        assert await rig.store.change(id, JobChange(delay=500.0)) == "changed"
    (first, *_) = await rig.store.waits(job=put_off)
    assert first.until == pytest.approx(await rig.store.now() + 500.0, abs=5.0)
    assert await rig.store.signal(woken, "go", "1") == "delivered"
    assert taken(await ask(rig, worker, await rig.run(worker, woken))) == (SIGNAL, "1")
    await rig.clock.advance(100.0)
    await rig.store.promote()
    assert await state(rig, put_off) is State.SCHEDULED
    await rig.clock.advance(405.0)
    await rig.store.promote()
    assert taken(await ask(rig, worker, await rig.run(worker, put_off)))[0] == TIMEOUT


async def test_w2_e8_a_wait_is_not_cut_short(rig: Rig) -> None:
    """A job that is to run sooner waits on; one that waits for ever is not given a timeout."""
    worker = await rig.worker()
    sooner = await waiting(rig, worker, timeout=LONG)
    assert await rig.store.change(sooner, JobChange(delay=10.0)) == "changed"
    await rig.clock.advance(11.0)
    await rig.store.promote()
    answer = await ask(rig, worker, await rig.run(worker, sooner))
    assert answer.left == pytest.approx(LONG - 11.0, abs=5.0)
    for_ever = await waiting(rig, worker, timeout=None)
    assert await rig.store.change(for_ever, JobChange(delay=10.0)) == "changed"
    await rig.clock.advance(11.0)
    await rig.store.promote()
    assert await ask(rig, worker, await rig.run(worker, for_ever)) == Awaited(left=None)


async def test_w2_e7_a_signal_that_is_sent_again_with_its_key_is_sent_once(rig: Rig) -> None:
    """Also when its job has ended: the sender has lost the answer, not the signal."""
    worker = await rig.worker()
    id, other = await waiting(rig, worker), await waiting(rig, worker)
    assert await rig.store.signal(id, "go", "1", once=Once(f"{id}/k")) == "delivered"
    assert await rig.store.signal(id, "go", "1", once=Once(f"{id}/k")) == "repeated"
    assert await rig.store.signal(id, "go", "2", once=Once(f"{id}/l")) == "kept"
    assert await rig.store.signal(other, "go", "1", once=Once(f"{other}/k")) == "delivered"
    for each in await rig.claim(worker):
        assert taken(await ask(rig, worker, each)) == (SIGNAL, "1")
        await rig.finish(worker, each)
    assert await rig.store.signal(id, "go", "1", once=Once(f"{id}/k")) == "repeated"
    with pytest.raises(SignalRefused):
        await rig.store.signal(id, "go", "1", once=Once(f"{id}/new"))


async def test_w2_e7_the_key_of_a_signal_is_known_as_long_as_those_of_jobs(rig: Rig) -> None:
    worker = await rig.worker()
    id = await waiting(rig, worker, timeout=None)
    assert await rig.store.signal(id, "other", "1", once=Once(f"{id}/k")) == "kept"
    await rig.clock.advance(86_300.0)
    await rig.store.expire()
    assert await rig.store.signal(id, "other", "1", once=Once(f"{id}/k")) == "repeated"
    await rig.clock.advance(200.0)
    assert await rig.store.signal(id, "other", "1", once=Once(f"{id}/k")) == "kept"


async def test_w2_e7_what_was_sent_before_is_repeated_whatever_the_job_waits_for_now(rig: Rig) -> None:
    """[W2] [E7]"""

    def fits(shape: str) -> None:
        if shape != INTEGER:
            raise InvalidPayload(shape)

    worker = await rig.worker()
    id = await waiting(rig, worker, shape=INTEGER)
    once = Once(f"{id}/k")
    assert await rig.store.signal(id, "go", "7", once=once, fits=fits) == "delivered"
    job = await rig.run(worker, id)
    await ask(rig, worker, job, shape=INTEGER)
    found = await ask(rig, worker, job, no=2, shape='{"type":"string"}')
    await rig.finish(worker, job, Kind.SNOOZE, delay=found.left or LONG)
    assert await rig.store.signal(id, "go", "7", once=once, fits=fits) == "repeated"
    with pytest.raises(InvalidPayload):
        await rig.store.signal(id, "go", "7", once=Once(f"{id}/new"), fits=fits)
