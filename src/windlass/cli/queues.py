"""The verbs about queues: queues lists them, queue pauses, resumes, sets and warms single ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import click

from windlass.cli.settings import shown
from windlass.cli.verbs import command, table
from windlass.operations import queues as operations
from windlass.operations.queues import QueueView
from windlass.presentation.text import span
from windlass.store.fields import Unit, fields_of
from windlass.store.records import QueueRecord

COLUMNS: Final = ("queue", ">ready", ">running", "?>scheduled", "?>retrying", ">dead", ">oldest")
"""The columns of a queue wherever queues are listed; see `queue_row`."""
LISTED: Final = (*COLUMNS, "??>slots", "??>workers", "state")
_FIELDS: Final = fields_of(QueueRecord)
_UNITS: Final[dict[str, Unit]] = {"cooling": "time", "rate": "rate"}
"""Units of what is no setting."""


def queue_row(queue: QueueView) -> Sequence[object]:
    """A queue as a row under COLUMNS; what may be an estimate has a tilde [M1]."""
    counts = (queue.ready, queue.running, queue.scheduled, queue.retrying, queue.dead)
    about = (f"{'~' if queue.estimate and count > 1000 else ''}{count:,}" for count in counts)
    return queue.name, *about, None if queue.oldest is None else span(queue.oldest)


def _row(queue: QueueView) -> Sequence[object]:
    most = "" if queue.max_workers is None else f"/{queue.max_workers}"
    slots = "–" if queue.slots is None else queue.slots
    told = queue.load_text.startswith(queue.state_text)
    state = queue.load_text if told else "; ".join(filter(None, (queue.load_text, queue.state_text)))
    return *queue_row(queue), f"{slots}{most}", queue.workers, state


def _print(queue: QueueView) -> None:
    """Print the settings of a queue, and what it has come to."""
    for name in QueueRecord.__struct_fields__:
        field = _FIELDS.get(name)
        unit, none = (_UNITS.get(name), "none") if field is None else (field.unit, field.unset or "none")
        click.echo(f"{name.replace('_', '-'):15} {shown(getattr(queue, name), unit, none)}")


@click.group()
def queue() -> None:
    """Pause, resume and set single queues, for the whole cluster and without a restart."""


queues: Final = command(operations.list_queues, table(LISTED, _row))
queue.add_command(command(operations.pause_queues))
queue.add_command(command(operations.resume_queues))
queue.add_command(command(operations.set_queue, _print))
queue.add_command(command(operations.show_queue, _print))
queue.add_command(command(operations.warm_queue))
