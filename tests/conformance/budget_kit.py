"""Short ways to say what tests of budgets say often [F1].

Most budgets of theirs have a rate of 0, so that it does not matter how long a test takes.
"""

from typing import Any

from tests.conformance.kit import Rig
from windlass.store.fields import NewBudget
from windlass.store.records import BudgetRecord, ClaimedJob, Need

NEEDS = {"t": [Need("b")]}
PAUSE = 30.0


async def declare(rig: Rig, burst: int = 1, rate: float = 0.0, name: str = "b", **about: Any) -> None:
    await rig.store.declare_budget(NewBudget(name=name, rate=rate, burst=burst, **about))


async def budget(rig: Rig, name: str = "b") -> BudgetRecord:
    return next(record for record in await rig.store.budgets() if record.name == name)


async def taken(rig: Rig, n: int = 1, key: str = "", name: str = "b") -> bool:
    """Whether tokens were granted; if not, there is a time to wait."""
    answer = await rig.store.take(name, n, key)
    assert answer.granted or answer.wait > 0
    return answer.granted


async def grants(rig: Rig, key: str = "") -> int:
    """How many tokens can be had one by one."""
    count = 0
    while await taken(rig, key=key):
        count += 1
    return count


async def claim(
    rig: Rig, worker: int, needs: dict[str, list[Need]] | None = None, limit: int = 100
) -> list[ClaimedJob]:
    claims = await rig.store.claim(worker, ["default"], limit, NEEDS if needs is None else needs)
    return [job for claim in claims for job in claim.jobs]


async def promote(rig: Rig) -> None:
    for _ in range(2):
        await rig.store.promote()


async def claimed_tasks(rig: Rig, worker: int, needs: dict[str, list[Need]] | None = None) -> list[str]:
    return [job.task for job in await claim(rig, worker, needs)]
