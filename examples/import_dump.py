"""A dump goes into a table while pods come and go. One is killed, and every line is there once.

python -m examples.import_dump          # docs/guides/teams/imports.md is about it
"""

import json
import time
from contextlib import ExitStack
from math import ceil

from examples.stage import place, prepare, transaction, until, worker
from windlass import NDJSON, Part, Windlass

app = Windlass()
TABLE = "CREATE TABLE IF NOT EXISTS product (id bigint PRIMARY KEY, version integer NOT NULL)"
# Parts run side by side, so a later line may be written first: the version decides which one stays.
UPSERT = """INSERT INTO product VALUES ($1, $2) ON CONFLICT (id) DO UPDATE
    SET version = excluded.version WHERE product.version < excluded.version"""


@app.chunked(queue="imports", split=NDJSON("32KiB"))  # in earnest 256MiB
def load(part: Part, path: str) -> None:
    """Write the lines of one part, from its checkpoint on."""
    for batch in part.batches(100):
        time.sleep(0.05)  # stands for a slow table
        with transaction(app) as connection:
            connection.cursor().executemany(UPSERT, [(line["id"], line["version"]) for line in batch.records])
            batch.done(connection=connection)  # rows and checkpoint, or neither


@load.finalizer
def count(part: Part, path: str) -> list[int]:
    """Once, when every part has ended; what it returns is the result of the job."""
    with transaction(app) as connection:
        return list(connection.execute("SELECT count(*), sum(version - 1) FROM product").fetchall()[0])


def main(pod: tuple[str, ...] = ("-q", "imports=2/process", "--lease", "2s")) -> None:
    """Start one pod, then more, and kill the first."""
    with place() as folder, app, ExitStack() as pods:
        prepare(app, TABLE)
        versions = [(id, 1) for id in range(9000)] + [(id, 2) for id in range(0, 9000, 10)]
        lines = [json.dumps({"id": id, "version": version, "name": "A chair"}) for id, version in versions]
        (folder / "dump.ndjson").write_text("\n".join(lines), encoding="utf-8")
        job, imports = load.enqueue(str(folder / "dump.ndjson")), app.queue("imports")
        kill = pods.enter_context(worker("examples.import_dump:app", *pod))
        until(lambda: imports.depth().running == 2)
        depth = imports.depth()
        wanted = ceil((depth.running + depth.free) / 2)  # as deploy/kubernetes/hpa.yaml: demand by slots
        print(f"demand    {depth.running} parts run and {depth.free} could: {wanted} pods wanted")
        for _ in range(2):
            pods.enter_context(worker("examples.import_dump:app", *pod))
        until(lambda: imports.depth().running == 6)
        kill()
        print(f"killed    the first of 3 pods; result {job.result(timeout=60)}")
        print(f"imported  {app.parent(job.id).record().records:,} of {len(versions):,} lines")


if __name__ == "__main__":
    main()
