"""The command `windlass`. Each group of verbs lives in a module of its own; this is where they meet.

Errors that Windlass raises on purpose become one line and exit code 1; a command that makes no sense as
written is exit code 2; anything else is a bug and keeps its traceback. No line ever holds a password.
"""

from __future__ import annotations

from typing import Any

import click

from windlass.cli import (
    bench,
    budgets,
    database,
    dead,
    demo,
    doctor,
    enqueue,
    events,
    flow,
    jobs,
    maintain,
    parents,
    queues,
    schedules,
    tasks,
    top,
    web,
    worker,
    workers,
)
from windlass.errors import WindlassError
from windlass.version import __version__
from windlass.words.text import one_line


class Commands(click.Group):
    """A group whose commands may raise WindlassError."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; say in one line what went wrong."""
        try:
            return super().invoke(context)
        except WindlassError as error:
            raise click.ClickException(one_line(str(error))) from error


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def main() -> None:
    """A durable job engine: millions of small jobs, and heavy work that resumes where it stopped."""


for _command in (
    bench.bench,
    budgets.budget,
    budgets.budgets,
    database.migrate,
    database.sql,
    dead.dead,
    demo.demo,
    doctor.doctor,
    enqueue.enqueue,
    events.events,
    flow.blocked,
    flow.watermarks,
    jobs.job,
    jobs.jobs,
    maintain.maintain,
    parents.parent,
    parents.parents,
    queues.queue,
    queues.queues,
    schedules.schedules,
    tasks.reconcile,
    tasks.task,
    tasks.tasks,
    top.top,
    web.web,
    worker.worker,
    workers.workers,
):
    main.add_command(_command)
