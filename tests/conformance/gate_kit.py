"""Short ways to say what tests of gates say often [F3] [F6]."""

from tests.conformance.kit import Rig
from windlass.store.records import ClaimedJob


async def settle(rig: Rig) -> None:
    """Let everybody go as far as there is room."""
    for _ in range(3):
        await rig.store.promote()


async def take(rig: Rig, worker: int, limit: int = 100) -> list[ClaimedJob]:
    """Claim what there is room for."""
    await settle(rig)
    return await rig.claim(worker, limit=limit)


async def tasks(rig: Rig, worker: int, limit: int = 100) -> list[str]:
    """The tasks of what can be claimed."""
    return [claimed.task for claimed in await take(rig, worker, limit)]


async def reason(rig: Rig, id: int) -> str:
    """Why a job waits."""
    await settle(rig)
    return (await rig.look(id)).reason or ""
