"""Make a dump, import it with two processes, and tell what came of it; see README.md."""

import argparse
import json
import time
from pathlib import Path

from examples.import_dump.tasks import TABLE, Imported, app, load
from examples.stage import place, transaction, worker
from windlass import Job
from windlass.errors import JobNotFound, ResultTimeout

UPDATED_EVERY = 10


def make_dump(path: Path, products: int) -> int:
    """A dump of so many products, with a second version of every tenth at its end; how many lines it has."""
    versions = [(id, 1) for id in range(products)] + [(id, 2) for id in range(0, products, UPDATED_EVERY)]
    with path.open("w", encoding="utf-8") as dump:
        for id, version in versions:
            price = id % 1000 + version / 10
            line = {"id": id, "version": version, "name": f"Product {id} of the summer range", "price": price}
            dump.write(json.dumps(line) + "\n")
    return len(versions)


def follow(job: Job[Imported]) -> Imported:
    """The result of the job; until it is there, a line of progress every second."""
    while True:
        try:
            return job.result(timeout=1)
        except ResultTimeout:
            show(job)


def show(job: Job[Imported]) -> None:
    """How far the job is. Before a worker has split it, it has no parts."""
    try:
        parent = app.parent(job.id).record()
    except JobNotFound:
        print("progress  waiting for a worker")
        return
    share = parent.done / parent.size if parent.size else 1
    print(f"progress  {share:.0%}, {parent.records:,} records, {parent.succeeded} of {parent.total} parts")


def main() -> None:
    """Start a worker, enqueue, follow, tell."""
    parser = argparse.ArgumentParser(prog="python -m examples.import_dump")
    parser.add_argument(
        "--make", type=int, default=200_000, metavar="N", help="products in the dump [200000]"
    )
    products = parser.parse_args().make
    with place() as folder, app:
        dump = folder / "products.ndjson"
        lines = make_dump(dump, products)
        print(f"made      {lines:,} lines, {dump.stat().st_size / 2**20:.1f} MiB")
        app.migrate()
        with transaction(app) as connection:
            connection.execute(TABLE)
        with worker("examples.import_dump.tasks:app", "-q", "imports=4", "-p", "2"):
            began = time.monotonic()
            job = load.enqueue(str(dump))
            imported = follow(job)
            took = time.monotonic() - began
        parent = app.parent(job.id).record()
        print(f"imported  {parent.records:,} records in {parent.total} parts and {took:.1f} s")
        print(f"table     {imported.products:,} products, {imported.updated:,} of them in version 2")


if __name__ == "__main__":
    main()
