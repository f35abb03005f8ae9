"""What a worker does all the time is done once before it matters, and leaves nothing behind."""

from tests.chaos.kit import until
from tests.stock import BOTH
from tests.store.postgres.kit import Base
from windlass.store.postgres import PostgresStore

pytestmark = BOTH
SESSIONS = "SELECT count(pg_terminate_backend(pid)) FROM pg_stat_activity WHERE pid = ANY ($1)"


def prepared(store: PostgresStore) -> set[str]:
    """The statements that the one connection knows."""
    assert store._db._pool is not None
    (connection,) = store._db._pool._all
    return {query[0] for query in connection._stmt_cache._entries}


async def test_a_rehearsal_changes_nothing(alone: Base) -> None:
    store, worker = await alone.store(), await alone.worker()
    await alone.lane()
    await alone.look.enqueue()
    await store.rehearse(worker, [alone.queue])
    await store.rehearse(worker, [alone.queue, "nobody's"])
    assert (await store.depth())[alone.queue].ready == 1
    assert await alone.look.value("SELECT count(*) FROM windlass.claim WHERE worker = $1", worker) == 0
    assert await alone.look.value("SELECT count(*) FROM windlass.outcome") == 0
    (claim,) = await store.claim(worker, [alone.queue], 10)
    assert len(claim.jobs) == 1


async def test_one_that_has_died_rehearses_in_vain(alone: Base) -> None:
    """It hears of its end when it claims, or writes."""
    store, worker = await alone.store(), await alone.worker()
    await store.retire(worker)
    await store.rehearse(worker, [alone.queue])
    assert store._db.pool() == (1, 1)


async def test_a_connection_that_replaces_a_lost_one_is_rehearsed_before_it_is_needed(alone: Base) -> None:
    store, worker = await alone.store(), await alone.worker()
    await alone.lane()
    await store.rehearse(worker, [alone.queue])
    known = {query for query in prepared(store) if ".claim(" in query or ".finish(" in query}
    assert len(known) == 2
    assert store._db._pool is not None
    (lost,) = store._db._pool._all
    await alone.look.value(SESSIONS, [lost.get_server_pid()])

    async def replaced() -> bool:
        return lost.is_closed() and store._db.pool() == (1, 1)

    await until(replaced, 5.0)
    assert known <= prepared(store)
