"""Many jobs wake at once [W2] [C2]: in bounded steps, each once, while others are enqueued and run."""

from tests.conformance.kit import Rig, job
from windlass.core.states import Kind
from windlass.store.records import Step

N, REAL, STEP = 10_000, 200, 1_000
LONG = 3600.0


async def test_w2_ten_thousand_sleepers_wake_at_once(rig: Rig) -> None:
    """Some have slept before, with a step behind them; the others come to sleep as a delay does."""
    worker = await rig.worker()
    real = await rig.add(*(["asleep"] * REAL))
    jobs = await rig.claim(worker, limit=REAL)
    for each in jobs:
        await rig.store.save_step(worker, each, Step(name="sleep", sleep=LONG))
    await rig.finish(worker, jobs, Kind.SNOOZE, delay=LONG)
    ids = set(real)
    for _ in range(10):
        receipts = await rig.store.enqueue([job("asleep", delay=LONG)] * ((N - REAL) // 10))
        ids |= {receipt.id for receipt in receipts}
    assert len(ids) == N
    assert await rig.claim(worker) == []
    await rig.clock.advance(LONG + 60)

    due = 0
    while due < N:
        promoted = (await rig.store.promote(STEP)).due
        assert 0 < promoted <= STEP, "a step is bounded, and finds what is due"
        due += promoted
        (other,) = await rig.add("other", queue="others")
        await rig.finish(worker, await rig.run(worker, other, "others"))
    assert (due, (await rig.store.promote(STEP)).due) == (N, 0)

    seen: list[int] = []
    while claimed := await rig.claim(worker, limit=500):
        seen += [each.id for each in claimed]
        await rig.finish(worker, claimed)
    assert len(seen) == N
    assert set(seen) == ids
