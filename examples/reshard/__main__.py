"""Move accounts to another shard key, trip over one of them, mend it, and go on; see README.md."""

import argparse

from examples.reshard.tasks import TABLES, app, move, old_shard
from examples.stage import place, prepare, transaction, worker
from windlass.errors import JobFailed

OWNERS = 97
ORPHAN = 70
"""An account without an owner, which lies in shard 70: the third of eight parts."""


def fill(accounts: int) -> None:
    """Make the tables, and so many accounts in the old one. One of them has no owner."""
    rows = [
        (id, old_shard(id), None if id == ORPHAN else f"owner {id % OWNERS}") for id in range(1, accounts + 1)
    ]
    prepare(app, *TABLES)
    with transaction(app) as connection:
        insert = "INSERT INTO account_by_id (id, shard, owner) VALUES ($1, $2, $3)"
        connection.cursor().executemany(insert, rows)


def main() -> None:
    """Start a worker, enqueue, mend, redrive."""
    parser = argparse.ArgumentParser(prog="python -m examples.reshard")
    parser.add_argument("--accounts", type=int, default=20_000, metavar="N", help="accounts to move [20000]")
    accounts = parser.parse_args().accounts
    with place(), app:
        fill(accounts)
        print(f"made      {accounts:,} accounts, one of them without an owner")
        with worker("examples.reshard.tasks:app", "-q", "reshard=8", "-p", "2"):
            job = move.enqueue()
            parent = app.parent(job.id)
            try:
                job.result(timeout=60)
            except JobFailed:
                print(f"refused   {app.job(parent.record().final or 0).record().reason}")
            for part in parent.parts():
                print(f"part {part.index}    {part.state.value}, {part.done} of {part.size} shards")
            with transaction(app) as connection:
                connection.execute("UPDATE account_by_id SET owner = 'owner 70' WHERE id = $1", (ORPHAN,))
            parent.set(parallel=8)  # as `windlass parent set ID --parallel 8`
            again = parent.redrive()
            print(f"mended    the account; {again} run again: the part from its checkpoint, the rest")
            switched = job.result(timeout=60)
        print(f"switched  to {switched.table} with {switched.accounts:,} accounts")


if __name__ == "__main__":
    main()
