"""Guards that stand at the head of functions: each of these functions refuses what it cannot bear."""

from collections.abc import Callable

import psycopg
from psycopg import sql

from tests.postgres import Server
from windlass.store.postgres import PostgresStore
from windlass.store.records import WorkerInfo

READ_COMMITTED = (
    "adopt admit admit_gates admit_ring advance change close_group count_lock declare_lane delete_dead "
    "deliver_signals end_aside end_expired end_waiting fire_schedule follow hand_back lane_lock places_of "
    "promote request_cancels retry_many rollup_take rotation_begin rotation_lock split sweep_gates "
    "sweep_passes try_lock_waiting"
)
"""They take a lock and then read what is younger than it, which an older snapshot would hide [rule 2]."""
EPOCH = "ensure_lane hand_back heartbeat lead register rotation_begin take_ahead worker_alone worker_fence"
"""They give out numbers or trust a worker, which nobody may after a recovery [S3]."""
GIVEN = {"p_id": "2", "p_queue": "'queue'", "p_worker": "1"}
"""Arguments without which a function refuses the call before it comes to the guard; the others are NULL."""
ARGUMENTS = """
SELECT p.proname, p.prokind,
       ARRAY(SELECT n.name || '|' || format_type(t.type, NULL)
               FROM unnest(p.proargtypes) WITH ORDINALITY AS t(type, place)
               JOIN unnest(p.proargnames) WITH ORDINALITY AS n(name, place) USING (place) ORDER BY place)
  FROM pg_proc p JOIN pg_namespace s ON s.oid = p.pronamespace
 WHERE s.nspname = 'windlass' AND p.proname = ANY (%s)
"""


def unguarded(connection: psycopg.Connection, names: str, state: str) -> dict[str, str | None]:
    """Call these functions and return those that do not refuse it with this state, and with which they do."""
    found: dict[str, str | None] = dict.fromkeys(names.split(), "there is none")
    for name, kind, arguments in connection.execute(ARGUMENTS, (names.split(),)).fetchall():
        values = (argument.split("|") for argument in arguments)
        given = ", ".join(f"{GIVEN.get(label, 'NULL')}::{type_}" for label, type_ in values)
        call = f"{'CALL' if kind == 'p' else 'SELECT'} windlass.{name}({given})"
        found[name] = "done"
        try:
            with connection.transaction(force_rollback=True):
                connection.execute(sql.SQL(call))
        except psycopg.Error as error:
            found[name] = error.sqlstate
    return {name: answer for name, answer in found.items() if answer != state}


def test_what_needs_read_committed_refuses_an_older_snapshot(pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        connection.execute("SELECT windlass.adopt(false)")
        connection.isolation_level = psycopg.IsolationLevel.REPEATABLE_READ
        assert unguarded(connection, READ_COMMITTED, "WL006") == {}


async def test_what_needs_the_epoch_refuses_after_a_recovery(migrated: Callable[[Server], str]) -> None:
    with Server(18, fsync=False) as server:
        dsn = server.dsn(server.create_database(template=migrated(server)))
        store = PostgresStore(dsn)
        await store.open()
        await store.register(WorkerInfo(id=1))
        await store.close()
        server.kill9()
        server.start()
        with psycopg.connect(dsn, autocommit=True) as connection:
            assert unguarded(connection, EPOCH, "WL013") == {}
