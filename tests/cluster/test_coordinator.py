"""One host does the cluster's chores, for as long as its term lasts [K3]."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from tests.worker.line import Line, until, until_it_is
from windlass.cluster import coordinator as module
from windlass.cluster.coordinator import Coordinator
from windlass.core.retry import DeathPolicy
from windlass.core.rollup import Sample
from windlass.errors import StoreUnavailable
from windlass.store.records import NewJob, Options, Report, WorkerInfo
from windlass.worker.engine import waiting


@asynccontextmanager
async def standing(
    line: Line, candidate: int, *, sweep: float = 0.05, term: float = 0.6
) -> AsyncIterator[Coordinator]:
    """A candidate who stands while the block lasts."""
    await line.open()
    one = Coordinator(line.as_store, candidate, policy=DeathPolicy(), sweep=sweep, term=term)
    running = asyncio.create_task(one.run())
    try:
        yield one
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.fixture(autouse=True)
def often(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (
        "PROMOTE_EVERY",
        "SLOTS_EVERY",
        "ROTATE_EVERY",
        "EXPIRE_EVERY",
        "ROLLUP_EVERY",
        "WARN_EVERY",
    ):
        monkeypatch.setattr(module, name, 0.02)


def terms(*candidates: Coordinator) -> list[int]:
    return [candidate.term or 0 for candidate in candidates]


async def slots_of(line: Line, *workers: int) -> dict[int, dict[str, int]]:
    slots: dict[int, dict[str, int]] = (await line.cluster_view(list(workers))).slots
    return slots


async def test_k3_one_of_many_leads_and_the_next_takes_over_at_once(line: Line) -> None:
    """[K3] Who leaves in good order resigns."""
    async with standing(line, 1, term=30.0) as first:
        await until(lambda: first.term is not None)
        async with standing(line, 2, term=0.3) as second:
            await until(lambda: line.calls["lead"] >= 4)
            led = terms(first, second)
            assert led[1] == 0
            await line.resign(1)  # as it does when it ends
            await until(lambda: terms(first, second)[1] > led[0])
    assert line.calls["resign"] >= 2


async def test_k3_a_paused_coordinator_is_refused_and_stands_down(line: Line) -> None:
    """[K3] Its clock says that it leads, the store knows better: nothing of what it assigns counts."""
    await line.open()
    await line.set_queue("mail", {"max_workers": 10})
    await line.register(WorkerInfo(id=7, queues=("mail",)))
    async with standing(line, 1, term=30.0) as first:
        await until_it_is(lambda: slots_of(line, 7), {7: {"mail": 10}})
        assert first.term is not None
        await line.real.resign(1)  # its term runs out while it is paused …
        term = await line.real.lead(2, 30)
        assert term is not None
        await line.real.assign(term, {7: {"mail": 1}})  # … and another has led since
        await line.set_queue("mail", {"max_workers": 20})
        await until(lambda: first.term is None)
        assert await slots_of(line, 7) == {7: {"mail": 1}}


async def test_k3_a_term_that_cannot_be_renewed_ends_by_ones_own_clock(line: Line) -> None:
    """[K3] Cut off from the store, a coordinator stops being one no later than its term does."""
    async with standing(line, 1, term=0.2) as first:
        await until(lambda: first.term is not None)
        with line.cut():
            await until(lambda: first.term is None, within=2)
        await until(lambda: first.term is not None)


async def test_the_coordinator_does_its_chores(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """[K1] [K3] [K6] [C8] Promotion, slots, rescue, retention, and a warning about queues nobody serves."""
    await line.open()
    await line.set_queue("mail", {"max_workers": 3})
    await line.register(WorkerInfo(id=7, queues=("mail",), lease=0.2))
    await line.enqueue([NewJob(task="t", payload="[]", queue="mail")])
    await line.claim(7, ["mail"], 1)
    await line.enqueue([NewJob(task="t", payload="[]", queue="orphan", delay=0.01)])
    async with standing(line, 1):
        await until_it_is(lambda: slots_of(line, 7), {7: {"mail": 3}})
        await until_it_is(lambda: _ready(line, "orphan"), 1)
        await until_it_is(lambda: _ready(line, "mail"), 1)  # its worker never sent a heartbeat
        await until_it_is(lambda: slots_of(line, 7), {})
        await until(lambda: line.calls["rotate"] and line.calls["expire"])
        await until(lambda: "1 job waits in queue orphan" in caplog.text)
    assert caplog.text.count("queue orphan") == 1
    assert "start one with -q orphan" in caplog.text


async def _ready(line: Line, queue: str) -> int:
    depth = (await line.depth()).get(queue)
    return depth.ready if depth is not None else 0


async def test_a_warning_names_the_ability_that_nobody_has(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[K14] Once, and again where it was mended and came back."""
    await line.open()
    await line.register(WorkerInfo(id=7, queues=("mail",), lease=60.0))
    job = NewJob(task="t", payload="[]", queue="mail", options=Options(needs="big-memory,gpu"))
    await line.enqueue([job])
    said = (
        "1 job waits in queue mail, and no live worker has the abilities big-memory, gpu; start one with "
        "-q mail --ability big-memory --ability gpu"
    )
    async with standing(line, 1):
        await until(lambda: said in caplog.text)
        seen = line.calls["depth"]
        await until(lambda: line.calls["depth"] >= seen + 3)
        assert caplog.text.count(said) == 1
        await line.register(WorkerInfo(id=8, queues=("mail",), abilities=frozenset({"gpu", "big-memory"})))
        seen = line.calls["depth"]
        await until(lambda: line.calls["depth"] >= seen + 3)
        await line.retire(8)
        await until(lambda: caplog.text.count(said) == 2)


async def test_a_queue_is_called_unserved_only_at_the_second_look(
    line: Line, caplog: pytest.LogCaptureFixture
) -> None:
    """[K3] At the first one the worker of the same host may not have registered yet."""
    await line.open()
    for queue in ("mail", "orphan"):
        await line.enqueue([NewJob(task="t", payload="[]", queue=queue)])
    looks = 0

    async def look(answer: object) -> None:
        nonlocal looks
        looks += 1
        if looks == 1:
            await line.register(WorkerInfo(id=7, queues=("mail",), lease=60.0))

    line.after["depth"] = look
    async with standing(line, 1):
        await until(lambda: "queue orphan" in caplog.text)
        assert looks >= 2
        seen = looks
        await until(lambda: looks >= seen + 2)
    assert "queue mail" not in caplog.text


async def test_an_outage_is_told_once_and_so_is_its_end(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """However many chores fail, and however often."""
    caplog.set_level("INFO")
    async with standing(line, 1, term=30.0):
        await until(lambda: line.calls["promote"] and line.calls["workers"])
        with line.cut():
            seen = line.calls["promote"]
            await until(lambda: line.calls["promote"] >= seen + 5)
        await until(lambda: "chores of the cluster: recovered after" in caplog.text)
    assert caplog.text.count("a duty of the cluster failed") == 1


async def test_a_chore_that_fails_is_tried_again(line: Line, caplog: pytest.LogCaptureFixture) -> None:
    """[K3]"""
    caplog.set_level("INFO")
    await line.open()
    await line.enqueue([NewJob(task="t", payload="[]", delay=0.01)])
    line.fail("promote", StoreUnavailable("just now"), StoreUnavailable("and now"))
    async with standing(line, 1):
        await until_it_is(lambda: _ready(line, "default"), 1)
    assert caplog.text.count("a duty of the cluster failed") == 1
    assert "chores of the cluster: recovered after 2 failures" in caplog.text


async def test_c8_an_outage_of_the_observer_declares_nobody_dead(line: Line) -> None:
    """[C8] After the store was away, every worker gets a whole lease to show that it lives."""
    await line.open()
    await line.register(WorkerInfo(id=7, queues=("mail",), lease=0.4))
    async with standing(line, 1, term=30.0):
        await until(lambda: line.calls["workers"] >= 2)
        with line.cut():
            seen = line.calls["workers"]
            began = asyncio.get_running_loop().time()
            await until(
                lambda: line.calls["workers"] > seen and asyncio.get_running_loop().time() - began > 0.45
            )
        await until(lambda: line.calls["workers"] >= seen + 2)
        assert [worker.id for worker in await line.real.workers()] == [7]
        rescued = line.calls["rescue"]
        assert rescued == 0


async def test_who_does_not_lead_does_nothing(line: Line) -> None:
    """[K3]"""
    await line.open()
    await line.lead(99, 60)
    async with standing(line, 1):
        await until(lambda: line.calls["workers"] >= 3)  # it watches, to know at once if it must take over
    for chore in ("promote", "assign", "rotate", "expire", "rescue", "resign"):
        assert line.calls[chore] == 0, chore


async def test_m1_whoever_leads_adds_up_what_was_told(line: Line) -> None:
    await line.open()
    await line.report(7, 1, Report(samples=[Sample(at=60, queue="mail", task="send", counts={"retry": 2})]))
    async with standing(line, 1):

        async def retries() -> list[int]:
            return [sample.counts["retry"] for sample in await line.totals()]

        await until_it_is(retries, [2, 2, 2])  # of the task, of its queue, and of everything


@pytest.mark.parametrize("chore", ["rollup", "rotate", "lead", "wait_aside"])
async def test_k3_a_chore_that_fails_in_a_way_nobody_foresaw_does_not_end_the_term(
    line: Line, chore: str, caplog: pytest.LogCaptureFixture
) -> None:
    """[K3] The others go on, and it is tried again. The log says where it failed."""
    caplog.set_level("INFO")
    await line.open()
    async with standing(line, 1) as one:
        await until(lambda: one.term is not None)
        line.fail(chore, *[RuntimeError("out of the blue")] * 3)
        seen = line.calls[chore]
        await until(lambda: line.calls[chore] >= seen + 4)
        assert line.calls["resign"] == 0
        await until(lambda: "recovered after 3 failures" in caplog.text)
    assert caplog.text.count("failed unexpectedly") == 1
    assert "Traceback" in caplog.text


@pytest.mark.parametrize("call", ["promote", "lead", "workers"])
async def test_k3_who_leaves_waits_for_the_answer_to_a_call(
    line: Line, call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K3] A statement that is broken off is an error in the server's log."""
    monkeypatch.setattr(waiting, "ANSWER_TIME", 60.0)
    sent, answer = asyncio.Event(), asyncio.Event()
    answers: list[object] = []

    async def held(*_: object) -> None:
        sent.set()
        await answer.wait()

    async def came(found: object) -> None:
        answers.append(found)

    await line.open()
    line.before[call], line.after[call] = held, came
    one = Coordinator(line.as_store, 1, policy=DeathPolicy(), sweep=0.05, term=30.0)
    running = asyncio.create_task(one.run())
    await sent.wait()
    running.cancel()
    await asyncio.sleep(0)
    answer.set()
    await asyncio.gather(running, return_exceptions=True)
    assert answers
