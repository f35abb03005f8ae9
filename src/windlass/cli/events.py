"""The verb about what happened: events of jobs, workers and the cluster, the latest first [M2]."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.options import JobId, json_option, on_store
from windlass.cli.target import Target
from windlass.cli.text import print_json, print_table
from windlass.store.measures import EventRecord
from windlass.words.event_shapes import event_as_json
from windlass.words.text import local

_COLUMNS: Final = ("when", "what", "queue", "task", ">job", "told", "worker")


@click.command()
@click.option("--job", metavar="ID", type=JobId(), help="Only events of this job.")
@click.option("--queue", metavar="NAME", help="Only events of this queue.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="How many to list at most.",
)
@on_store
@json_option
def events(target: Target, job: int | None, queue: str | None, limit: int, as_json: bool) -> None:
    """What happened lately: failed attempts, deaths, workers that came and went, the latest first.

    A run that just succeeded makes no event, unless the workers' setting `events` is `all`.
    """
    found = target.run(lambda store: store.events(job=job, queue=queue, limit=limit))
    if as_json:
        print_json({"events": [event_as_json(event) for event in found]})
        return
    now = time.time()
    print_table(_COLUMNS, [_row(event, now) for event in found])


def _row(event: EventRecord, now: float) -> Sequence[object]:
    return (
        local(event.at, now),
        event.kind,
        event.queue,
        event.task,
        event.job,
        event.told,
        event.worker,
    )
