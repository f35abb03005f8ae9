"""The life of a store: migrate, open, close, and open again."""

import asyncio

from tests.conformance.kit import Rig
from windlass.core.states import State


async def test_migrating_again_changes_nothing(rig: Rig) -> None:
    """Version before = version after, and the jobs are there."""
    ids = await rig.add("a", "b")
    migration = await rig.store.migrate()
    assert migration.before == migration.after > 0
    assert [job.id for job in await rig.claim(await rig.worker())] == ids


async def test_many_migrate_at_once(rig: Rig) -> None:
    """Safe when many processes start together; two real processes are tested with each store."""
    (id,) = await rig.add("t")
    migrations = await asyncio.gather(*(rig.store.migrate() for _ in range(5)))
    assert len({migration.after for migration in migrations}) == 1
    assert await rig.state(id) is State.READY


async def test_open_and_close_may_be_repeated(rig: Rig) -> None:
    """Both are idempotent, and what was enqueued survives them."""
    await rig.store.open()
    worker = await rig.worker()
    ids = await rig.add("a", "b")
    job = await rig.run(worker, ids[0])
    await rig.store.close()
    await rig.store.close()
    await rig.store.open()
    assert (await rig.finish(worker, job)).applied == 1
    assert [job.id for job in await rig.claim(worker)] == ids[1:]
