"""The move: a chunked task that copies one old shard a batch, and a finalizer that switches over only when
nothing is missing."""

from zlib import crc32

import msgspec

from examples.stage import transaction
from windlass import Context, Dead, Part, Retry, Shards, Windlass

app = Windlass()
SHARDS = 256

TABLES = (
    "CREATE TABLE IF NOT EXISTS account_by_id (id bigint PRIMARY KEY, shard integer NOT NULL, owner text)",
    "CREATE INDEX IF NOT EXISTS account_by_id_shard ON account_by_id (shard)",
    "CREATE TABLE IF NOT EXISTS account_by_owner (id bigint PRIMARY KEY, shard integer NOT NULL, owner text)",
    "CREATE TABLE IF NOT EXISTS route (name text PRIMARY KEY, leads_to text NOT NULL)",
)
OLD = "SELECT id, owner FROM account_by_id WHERE shard = $1"
COPY = """
    INSERT INTO account_by_owner (id, shard, owner) VALUES ($1, $2, $3)
    ON CONFLICT (id) DO UPDATE SET shard = excluded.shard, owner = excluded.owner
"""
MISSING = """
    SELECT old.shard, count(*) FROM account_by_id AS old
    LEFT JOIN account_by_owner AS new ON new.id = old.id AND new.owner = old.owner
    WHERE new.id IS NULL GROUP BY old.shard ORDER BY old.shard
"""
SWITCH = """
    INSERT INTO route (name, leads_to) VALUES ('account', 'account_by_owner')
    ON CONFLICT (name) DO UPDATE SET leads_to = excluded.leads_to
"""


class Switched(msgspec.Struct):
    """What the finalizer reports."""

    accounts: int
    table: str


def old_shard(id: int) -> int:
    """Where an account was: by its number."""
    return id % SHARDS


def new_shard(owner: str | None) -> int:
    """Where it goes: by its owner, so that all accounts of one owner lie together."""
    if owner is None:
        raise ValueError("an account without an owner belongs to no shard")
    return crc32(owner.encode()) % SHARDS


@app.chunked(
    queue="reshard",
    split=Shards(SHARDS, per_part=32),  # 8 parts
    parallel=2,  # go easy on the database; `windlass parent set ID --parallel 8` at night
    tolerate="25%",  # so that the finalizer sees, and tells, what two failed parts have left behind
    retry=Retry(2, base="200ms"),
)
def move(part: Part) -> None:
    """Copy the shards of one part, one a batch. Copying twice changes nothing."""
    for batch in part.batches(1):
        (shard,) = batch.records
        with transaction(app) as connection:
            old = connection.execute(OLD, (shard,)).fetchall()
            rows = [(id, new_shard(owner), owner) for id, owner in old]
            connection.cursor().executemany(COPY, rows)
            batch.done(connection=connection)  # the rows and the checkpoint, or neither


@move.finalizer
def switch(ctx: Context) -> Switched:
    """Let everybody read the new table, if it holds all that the old one does."""
    with transaction(app) as connection:
        missing = connection.execute(MISSING).fetchall()
        if missing:
            accounts = sum(count for _, count in missing)
            raise Dead(
                f"{accounts} accounts of {len(missing)} shards, from shard {missing[0][0]} on, are not in "
                "the new table, so nothing was switched: mend what failed, then "
                f"`windlass parent redrive {ctx.parent}`"
            )
        connection.execute(SWITCH)
        ((accounts,),) = connection.execute("SELECT count(*) FROM account_by_owner").fetchall()
    return Switched(accounts, "account_by_owner")
