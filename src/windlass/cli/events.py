"""The verb about what happened: events of jobs, workers and the cluster, the latest first [M2]."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.options import JobId, QueueName, limit_option, with_json
from windlass.cli.output import print_listing
from windlass.cli.target import Target
from windlass.presentation.events import EventShape
from windlass.presentation.text import local
from windlass.store.records import EventRecord

_COLUMNS: Final = ("when", "what", "??queue", "?task", "!>job", "text", "??worker")


@click.command()
@click.option("--job", metavar="ID", type=JobId(), help="Only events of this job.")
@click.option("--queue", type=QueueName(), metavar="NAME", help="Only events of this queue.")
@limit_option(100)
@with_json
def events(target: Target, job: int | None, queue: str | None, limit: int, as_json: bool) -> None:
    """List recent events, newest first: failed attempts, dead jobs, workers that started or stopped.

    A run that simply succeeds is not an event, unless the workers' setting `events` is `all`.
    """
    found = target.run(lambda store: store.events(job=job, queue=queue, limit=limit))
    now = time.time()
    print_listing(as_json, "events", found, EventShape.of, _COLUMNS, lambda event: _row(event, now))


def _row(event: EventRecord, now: float) -> Sequence[object]:
    at = local(event.at, now)
    return at, event.kind, event.queue, event.task, event.job, event.text, event.worker
