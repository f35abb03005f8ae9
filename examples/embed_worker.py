"""Texts become vectors in batches that outlast the lease. A worker is killed; what was done stays done.

python -m examples.embed_worker         # docs/guides/teams/embeddings.md is about it
"""

import time

from examples.embed_catalog.embedders import Hashing
from examples.stage import place, prepare, transaction, until, worker
from windlass import Items, Part, Windlass
from windlass.sets import RowSet, content_hash, run_number

app = Windlass()
model = Hashing()  # stands for a model that takes its time
TABLES = (
    "CREATE TABLE IF NOT EXISTS call (first text, texts integer)",  # what the model was asked for
    """CREATE TABLE IF NOT EXISTS vector (id text PRIMARY KEY, embedding text NOT NULL,
       hash text NOT NULL DEFAULT '', run bigint NOT NULL DEFAULT 0)""",
)
vectors = RowSet("vector", key="id", columns=("embedding",))
texts = Items(lambda count: [f"text {number}" for number in range(count)], size=64)  # the source


@app.chunked(queue="vectors", split=texts, batch=32, batch_timeout="10m", timeout="50m")
def embed(part: Part, count: int) -> None:
    """Embed what is missing or has changed. Each batch takes longer than the lease; heartbeats go on."""
    run = run_number(part.created_at)  # the same in all parts and attempts
    for batch in part.batches():
        hashes = {text: content_hash(text, model.name, model.dimension) for text in batch.records}
        with transaction(app) as connection:
            lacking = list(vectors.missing(connection, run, hashes))
            connection.execute("INSERT INTO call VALUES ($1, $2)", (batch.records[0], len(lacking)))
        time.sleep(1.5 if lacking else 0)  # outside of any transaction
        made = zip(lacking, model.embed(lacking), strict=True)
        with transaction(app) as connection:
            rows = [{"id": text, "embedding": vector, "hash": hashes[text]} for text, vector in made]
            vectors.upsert(connection, run, rows)
            batch.done(connection=connection)  # vectors and checkpoint, or neither


def main() -> None:
    """Embed 256 texts, lose a worker in the middle, and embed them once more for nothing."""
    command = ("examples.embed_worker:app", "-q", "vectors=2/process", "--lease", "1s")
    with place(), app, worker(*command) as kill, worker(*command):
        prepare(app, *TABLES)
        job = embed.enqueue(256)
        until(lambda: any(part.records for part in app.parent(job.id).parts()))
        kill()
        job.result(timeout=60)
        embed.enqueue(256).result(timeout=60)
        with transaction(app) as connection:
            calls = connection.execute("SELECT first, texts FROM call WHERE texts > 0").fetchall()
            ((stored,),) = connection.execute("SELECT count(*) FROM vector").fetchall()
    again = len(calls) - len({first for first, _ in calls})
    print(f"stored    {stored} vectors; the model was asked {len(calls)} times, {again} of them again")


if __name__ == "__main__":
    main()
