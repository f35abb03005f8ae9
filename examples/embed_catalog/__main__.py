"""Embed a catalogue, change it, lose a vector, search, and lose the catalogue; see README.md."""

import json
from pathlib import Path

from examples.embed_catalog.document import write_document
from examples.embed_catalog.tasks import TABLE, Refreshed, app, refresh, search
from examples.stage import place, prepare, transaction

QUERY = "create a refund"


def change(document: Path) -> None:
    """Another text for one operation, and two operations less."""
    content = json.loads(document.read_text(encoding="utf-8"))
    content["paths"]["/orders"]["get"]["summary"] = "List orders with their parcels, newest first"
    del content["paths"]["/roles/{id}"]
    document.write_text(json.dumps(content), encoding="utf-8")


def lose(path: str) -> None:
    """One vector less, as after a restore from an old backup."""
    with transaction(app) as connection:
        sql = "DELETE FROM vector WHERE document = $1 AND operation = 'list_tax'"
        connection.execute(sql, (path,))


def refreshed(path: str) -> Refreshed | None:
    """Run a refresh here and now, and give its result; in earnest, that is the business of a worker."""
    job = refresh.using(unique=path).enqueue(path)  # one refresh of a document at a time
    app.run_until_idle()
    result: Refreshed | None = job.result(timeout=10)
    return result


def main() -> None:
    """Refresh the vectors as the document changes."""
    with place() as folder, app:
        document = folder / "openapi.json"
        path = str(document)
        write_document(document)
        prepare(app, TABLE)
        print(f"first     {refreshed(path)}")
        print(f"again     {refreshed(path)}")
        change(document)
        print(f"changed   {refreshed(path)}")
        lose(path)
        print(f"gap       {refresh.reconcile()}")  # a worker asks when it starts, and every five minutes
        app.run_until_idle()
        print(f"filled    {refresh.reconcile()}")
        for likeness, operation in search(path, QUERY):
            print(f"found     {operation:20} {likeness:.2f}")
        document.unlink()
        print(f"vanished  {refreshed(path)}: the job has ended well, and the vectors stay")


if __name__ == "__main__":
    main()
