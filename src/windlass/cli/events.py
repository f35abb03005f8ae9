"""The verb about what happened: events of jobs, workers and the cluster, the latest first [M2]."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.options import JobId, json_option, on_store
from windlass.cli.output import print_json, print_table
from windlass.cli.target import Target
from windlass.presentation.events import event_as_json
from windlass.presentation.text import local
from windlass.store.records import EventRecord

_COLUMNS: Final = ("when", "what", "queue", "task", ">job", "text", "worker")


@click.command()
@click.option("--job", metavar="ID", type=JobId(), help="Only events of this job.")
@click.option("--queue", metavar="NAME", help="Only events of this queue.")
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    default=100,
    show_default=True,
    help="List at most this many.",
)
@on_store
@json_option
def events(target: Target, job: int | None, queue: str | None, limit: int, as_json: bool) -> None:
    """List recent events, newest first: failed attempts, dead jobs, workers that started or stopped.

    A run that simply succeeds is not an event, unless the workers' setting `events` is `all`.
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
        event.text,
        event.worker,
    )
