"""Jobs that sleep and wait beside claims, enqueues, signals and chores [W2]: what these cost does not depend
on how many they are."""

from functools import partial
from pathlib import Path
from typing import Any

from tests.store.sqlite.kit import job, opened
from tests.store.sqlite.test_plans import cost, read_cost
from windlass.core.states import Kind
from windlass.store.records import ClaimedJob, Outcome, Step, Wait, WorkerInfo
from windlass.store.sqlite import SQLiteStore
from windlass.store.sqlite.durable import waiting

LONG = 3600.0
WAIT = Wait(name="wait:go", signal="go", timeout=LONG)


async def claimed(store: SQLiteStore, n: int) -> list[ClaimedJob]:
    """So many jobs that run now."""
    await store.enqueue([job() for _ in range(n)])
    return [each for claim in await store.claim(1, ["default"], n) for each in claim.jobs]


async def put_off(store: SQLiteStore, flush: int, jobs: list[ClaimedJob]) -> None:
    await store.finish(1, flush, [Outcome(job=each, kind=Kind.SNOOZE, delay=LONG) for each in jobs])


async def costs_of(store: SQLiteStore) -> dict[str, int]:
    """What each of these calls costs now."""
    first, second, third = await claimed(store, 3)
    found: dict[str, int] = {}

    async def pay(name: str, call: Any) -> None:
        found[name] = await cost(store, call)

    await pay("enqueue", partial(store.enqueue, [job(), job(delay=LONG)]))
    await pay("step", partial(store.save_step, 1, third, Step(name="sleep", sleep=LONG)))
    await pay("wait", partial(store.wait_for_signal, 1, first, WAIT))
    await pay("put off", partial(put_off, store, 3, [first, third]))
    await pay("promote", store.promote)
    await pay("kept", partial(store.signal, second.id, "go", "1"))
    await pay("answered", partial(store.wait_for_signal, 1, second, WAIT))
    await pay("delivered", partial(store.signal, first.id, "go", "1"))
    await pay("claim", partial(store.claim, 1, ["default"], 10))
    await pay("cancel", partial(store.cancel, [third.id]))
    await pay("expire", partial(store.expire, 10))
    return found


async def test_w2_what_sleeps_and_waits_costs_others_nothing(tmp_path: Path) -> None:
    """[fault 13] A hundred thousand that sleep, and two thousand that wait with steps behind them."""
    costs: list[dict[str, int]] = []
    for asleep, waits in ((1_000, 500), (100_000, 2_000)):
        path = tmp_path / f"{asleep}.db"
        async with opened(path) as store:
            await store.register(WorkerInfo(id=1))
            jobs = await claimed(store, waits)
            for each in jobs:
                await store.save_step(1, each, Step(name="plan"))
                await store.wait_for_signal(1, each, WAIT)
            await put_off(store, 1, jobs)
            for _ in range(10):
                await store.enqueue([job(delay=2 * LONG)] * (asleep // 10))
            costs.append(await costs_of(store))
            costs[-1]["list"] = await read_cost(path, partial(waiting.waits, limit=10))
    few, many = costs
    assert {name: (few[name], many[name]) for name in few if many[name] > 1.5 * few[name] + 300} == {}
