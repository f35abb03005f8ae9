"""The verb about what happened: events of jobs, workers and the cluster, the latest first, or as they come
[M2]."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.options import JobId, QueueName, limit_option, with_json
from windlass.cli.output import print_json
from windlass.cli.target import Target
from windlass.cli.verbs import table
from windlass.core.harmless import harmless
from windlass.errors import StoreUnavailable
from windlass.operations.events import EventView, find_events
from windlass.operations.operation import Ops
from windlass.presentation.text import local_of, moment

EVERY: Final = 1.0
PAGE: Final = 200
SETTLED: Final = 60.0
"""Seconds after which none comes any more with a lower number than one that was seen. Numbers are given out
before a report is committed, and another one may be faster."""
_COLUMNS: Final = ("when", "what", "??queue", "?task", "!>job", "text", "??worker")


@click.command()
@click.option("--job", metavar="ID", type=JobId(), help="Only events of this job.")
@click.option("--queue", type=QueueName(), metavar="NAME", help="Only events of this queue.")
@click.option("--follow", is_flag=True, help="Print the oldest first, and go on with those that come.")
@limit_option(100)
@with_json
def events(
    target: Target, job: int | None, queue: str | None, follow: bool, limit: int, as_json: bool
) -> None:
    """List recent events, newest first: failed attempts, dead jobs, workers that started or stopped.

    A run that simply succeeds is not an event, unless the workers' setting `events` is `all`. With --follow
    and --json each event is a line.
    """
    if follow:
        target.with_ops(lambda ops: _follow(Tail(ops, job, queue, limit), as_json))
        return
    found, _ = target.operate(find_events, queue=queue, job=job, limit=limit)
    if as_json:
        print_json(found)
    else:
        table(_COLUMNS, _row)(found)


def _row(event: EventView) -> Sequence[object]:
    return local_of(event.at), event.kind, event.queue, event.task, event.job, event.text, event.worker


class Tail:
    """The latest events, and then those that come."""

    def __init__(self, ops: Ops, job: int | None, queue: str | None, limit: int) -> None:
        self._ops = ops
        self._job = job
        self._queue = queue
        self._limit: int | None = limit
        self._seen: dict[int, float] = {}
        """The numbers of those that were given and behind which others may still come, and when that was."""
        self._floor = 0
        """Up to this number all have been given."""

    async def fresh(self) -> list[EventView]:
        """Return those that were not given yet, the oldest first."""
        now, found, before = time.monotonic(), dict[int, EventView](), None
        while True:
            size = PAGE if self._limit is None else self._limit
            page = (await find_events(self._ops, self._queue, self._job, size, before)).events
            numbered = {int(event.id or 0): event for event in page}
            found |= {id: each for id, each in numbered.items() if id > self._floor and id not in self._seen}
            before = min(numbered, default=0)
            if self._limit is not None or len(page) < size or before <= self._floor:
                break
        if self._limit is not None and found:
            self._floor = min(found) - 1
        self._limit = None
        self._seen.update(dict.fromkeys(found, now))
        self._settle(now)
        return list(found.values())[::-1]

    def _settle(self, now: float) -> None:
        old = [id for id, since in self._seen.items() if now - since > SETTLED]
        if old:
            self._floor = max(old)
            self._seen = {id: since for id, since in self._seen.items() if id > self._floor}


async def _follow(tail: Tail, as_json: bool) -> None:
    while True:
        try:
            found = await tail.fresh()
        except StoreUnavailable as away:
            click.echo(f"the store cannot be read, the next try follows: {away}", err=True)
            found = []
        for event in found:
            if as_json:
                print_json(event, indent=None)
            else:
                click.echo(_line(event))
        await asyncio.sleep(EVERY)


def _line(event: EventView) -> str:
    at = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(moment(event.at)))
    about = (event.queue, event.task, event.job, event.text, event.worker)
    return harmless("  ".join([at, event.kind, *(each for each in about if each)]))
