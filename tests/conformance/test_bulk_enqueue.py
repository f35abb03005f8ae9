"""Many new jobs of every kind in one call: each fares as it would alone, one after another [E1] [E6] [E7]."""

import random
from collections.abc import Sequence

import pytest

from tests.conformance.kit import HandClock, Rig, job
from tests.model.oracle import OracleStore
from windlass.store.records import NewJob, Receipt


def mixture(seed: int, first: int, n: int = 80) -> list[NewJob]:
    """Jobs of every kind, some of which share keys; the same for the same seed, but for the job they come
    after."""
    dice = random.Random(seed)
    jobs: list[NewJob] = []
    for place in range(n):
        fields: dict[str, object] = {"priority": dice.choice([1, 2])}
        match dice.randrange(8):
            case 0:
                fields |= {"delay": dice.choice([0, 60.0])}
            case 1:
                fields |= {"unique_key": f"u{dice.randrange(12)}"}
            case 2:
                fields |= {"idempotency_key": f"i{dice.randrange(12)}"}
            case 3:
                fields |= {"unique_key": f"b{dice.randrange(9)}", "idempotency_key": f"b{dice.randrange(9)}"}
            case 4:
                # A twin that waits for its time is simply removed.
                fields |= {"queue": "later", "delay": 60.0, "unique_key": f"r{dice.randrange(9)}"}
                fields |= {"on_conflict": dice.choice(["skip", "replace"])}
            case 5:
                fields |= {
                    "queue": "aside",
                    dice.choice(["ordering_key", "fair_key"]): f"k{dice.randrange(3)}",
                }
                fields |= {"delay": dice.choice([None, 0, 60.0])}
            case 6:
                fields |= {"queue": "later", "after": (first,)}
            case _:
                pass
        jobs.append(job(f"t{place}", **fields))
    return jobs


def statuses(receipts: Sequence[Receipt]) -> list[tuple[str, int]]:
    """What became of each, and which of the jobs before it stands for it. Whether one that may have to wait
    aside has to is seen after the call, so not while the call goes on."""
    ids = [receipt.id for receipt in receipts]
    return [(receipt.status.replace("held", "enqueued"), ids.index(receipt.id)) for receipt in receipts]


@pytest.mark.parametrize("seed", range(4))
async def test_a_bulk_of_every_kind_fares_as_one_by_one(rig: Rig, seed: int) -> None:
    """One statement adds them all on PostgreSQL, where each took its own; lanes keep the jobs' order."""
    model = Rig(OracleStore(clock=HandClock()), HandClock(), "model")
    for each in (rig, model):
        await each.add("declared")
        assert await each.claim(await each.worker())
    together = await rig.store.enqueue(mixture(seed, (await rig.one(queue="later", delay=90.0)).id))
    jobs = mixture(seed, (await model.one(queue="later", delay=90.0)).id)
    alone = [(await model.store.enqueue([each]))[0] for each in jobs]
    assert statuses(together) == statuses(alone)
    seen: list[tuple[list[str], list[str]]] = []
    for each, receipts in ((rig, together), (model, alone)):
        ran = [claimed.task for claimed in await each.claim(await each.worker(), limit=500)]
        # Its place is its successor's, sooner or later.
        kept = [receipt.id for receipt in receipts if receipt.status != "replaced"]
        states = [record.state for id in kept if (record := await each.store.job(id)) is not None]
        seen.append((ran, [str(state) for state in states]))
    assert seen[0] == seen[1]


async def test_a_bulk_in_which_one_is_refused_writes_nothing(rig: Rig) -> None:
    """[E4] [E6] The keys of the others are free afterwards."""
    held = await rig.one(unique_key="taken")
    bad = job(unique_key="taken", on_conflict="reject")
    with pytest.raises(ValueError, match="taken"):
        await rig.store.enqueue([job(unique_key="free"), job(delay=60.0), job(idempotency_key="free"), bad])
    receipts = await rig.store.enqueue([job(unique_key="free"), job(idempotency_key="free")])
    assert [receipt.status for receipt in receipts] == ["enqueued", "enqueued"]
    assert held.id not in {receipt.id for receipt in receipts}
    assert len(await rig.claim(await rig.worker())) == 3
