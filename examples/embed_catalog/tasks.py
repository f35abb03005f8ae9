"""Keeping the vectors: a chunked task that makes what is missing, a finalizer that removes what is gone, a
reconciler that notices when the two have drifted apart, and a search over what is there."""

import json
import os
from collections.abc import Iterator, Mapping
from contextlib import suppress

import msgspec

from examples.embed_catalog.document import operations
from examples.embed_catalog.embedders import make_embedder
from examples.stage import transaction
from windlass import Items, Part, SourceGone, Windlass
from windlass.sets import RowSet, content_hash, run_number

app = Windlass()
model = make_embedder(os.environ.get("EMBEDDER", "hashing"))

TABLE = """
    CREATE TABLE IF NOT EXISTS vector (
        document  text NOT NULL,
        operation text NOT NULL,
        text      text NOT NULL,
        embedding text NOT NULL,
        made      bigint NOT NULL,              -- the run that made the vector
        hash      text NOT NULL DEFAULT '',     -- what it was made from
        run       bigint NOT NULL DEFAULT 0,    -- the last run that saw its operation
        PRIMARY KEY (document, operation)
    )
"""
vectors = RowSet("vector", key="operation", columns=("text", "embedding", "made"), scope="document")


class Refreshed(msgspec.Struct):
    """What the finalizer reports: how many vectors there are, were made in this run, and are gone."""

    vectors: int
    made: int
    gone: int


def hashes_of(texts: Mapping[str, str]) -> dict[str, str]:
    """What each vector is made from: another text, model or dimension means another vector."""
    return {id: content_hash(text, model.name, model.dimension) for id, text in texts.items()}


@app.chunked(queue="vectors", split=Items(operations, size=500), batch=32)
def refresh(part: Part, path: str) -> None:
    """Make the vectors that the document needs and the table lacks. What is there already costs nothing."""
    run = run_number(part.created_at)  # the same in all parts and attempts
    for batch in part.batches():
        texts = {operation["id"]: operation["text"] for operation in batch.records}
        hashes = hashes_of(texts)
        with transaction(app) as connection:
            lacking = list(vectors.missing(connection, run, hashes, scope=path))
        made = model.embed([texts[id] for id in lacking])  # slow, so outside of any transaction
        rows = [
            {"operation": id, "text": texts[id], "embedding": vector, "made": run, "hash": hashes[id]}
            for id, vector in zip(lacking, made, strict=True)
        ]
        with transaction(app) as connection:
            vectors.upsert(connection, run, rows, scope=path)
            batch.done(connection=connection)  # vectors and checkpoint, or neither


@refresh.finalizer
def prune(part: Part, path: str) -> Refreshed:
    """Remove the vectors of operations that the document no longer has."""
    run = run_number(part.created_at)
    with transaction(app) as connection:
        gone = vectors.replace(connection, run, scope=path)
        sql = "SELECT count(*), count(*) FILTER (WHERE made = $1) FROM vector WHERE document = $2"
        ((left, made),) = connection.execute(sql, (run, path)).fetchall()
    return Refreshed(left, made, gone)


@refresh.find_gaps(every="5m", key=lambda path: path)
def gaps() -> Iterator[tuple[str]]:
    """Every known document with an operation that has no vector of its present text. The path is the key, so
    a refresh that is under way is not joined by a second one."""
    for path in known_documents():
        stored = {operation: hash for operation, hash, _ in stored_vectors(path)}
        with suppress(SourceGone):
            texts = {operation["id"]: operation["text"] for operation in operations(path)}
            if any(stored.get(id) != hash for id, hash in hashes_of(texts).items()):
                yield (path,)


def search(path: str, query: str, top: int = 3) -> list[tuple[float, str]]:
    """The operations nearest to a query, the nearest first, each with its likeness."""
    (asked,) = model.embed([query])
    scored = [
        (sum(a * b for a, b in zip(asked, json.loads(embedding), strict=True)), operation)
        for operation, _, embedding in stored_vectors(path)
    ]
    return sorted(scored, reverse=True)[:top]


def known_documents() -> list[str]:
    """The documents that have been embedded before."""
    with transaction(app) as connection:
        rows = connection.execute("SELECT DISTINCT document FROM vector ORDER BY document").fetchall()
    return [path for (path,) in rows]


def stored_vectors(path: str) -> list[tuple[str, str, str]]:
    """Operation, hash and embedding of every vector of a document."""
    with transaction(app) as connection:
        sql = "SELECT operation, hash, embedding FROM vector WHERE document = $1"
        return [*connection.execute(sql, (path,)).fetchall()]
