"""The verb about workers: who is there, and whether they are alive."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import click

from windlass.cli.options import json_option, on_store
from windlass.cli.target import Target
from windlass.cli.text import print_json, print_table
from windlass.store.records import WorkerRecord
from windlass.words.sample import Sample, look
from windlass.words.shapes import Shape, worker_as_json
from windlass.words.text import span

_COLUMNS = ("worker", "host", ">pid", "queues", ">slots", ">beat", ">up", "alive")


@click.command()
@on_store
@json_option
def workers(target: Target, as_json: bool) -> None:
    """Every worker that is alive or still holds jobs: where it runs, what it serves, its last beat."""
    sample = target.run(look)
    if as_json:
        print_json({"workers": workers_as_json(sample)})
    else:
        print_table(_COLUMNS, [_row(worker, sample) for worker in sample.workers])


def workers_as_json(sample: Sample) -> list[Shape]:
    """Every worker of a sample."""
    slots = sample.steering.slots
    return [worker_as_json(worker, slots.get(worker.id, {}), sample.at) for worker in sample.workers]


def alive_in_words(worker: WorkerRecord, now: float) -> str:
    """Whether a worker lives; one that is late has missed a whole lease and awaits its rescue."""
    if not worker.alive:
        return "no, holds jobs"
    return "yes" if now - worker.beat_at <= worker.lease else "late"


def _row(worker: WorkerRecord, sample: Sample) -> Sequence[object]:
    return (
        worker.label or worker.id,
        worker.host,
        worker.pid,
        ", ".join(worker.queues),
        _slots(sample.steering.slots.get(worker.id, {})),
        f"{span(sample.at - worker.beat_at)} ago",
        span(sample.at - worker.started_at),
        alive_in_words(worker, sample.at),
    )


def _slots(assigned: Mapping[str, int]) -> str:
    return str(sum(assigned.values())) if assigned else "–"
