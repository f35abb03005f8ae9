"""The verbs about schedules: list them, run, pause and resume one, show its next times, make up for past
ones, and make, change and remove one at run time [K4]."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, get_args

import click

from windlass.cli.enqueue import call_arguments, find_task
from windlass.cli.options import with_json
from windlass.cli.output import print_answer, print_json
from windlass.cli.settings import given_options, schedule_job_options
from windlass.cli.target import Target
from windlass.cli.verbs import command, table
from windlass.core.cron import Missed, Overlap, zone
from windlass.operations import schedules as operations
from windlass.operations.bodies import NewJobBody
from windlass.operations.schedules import NewScheduleBody, ScheduleClock, ScheduleView, Times
from windlass.presentation.text import in_zone, local_of, moment
from windlass.store.records import JOB_OPTIONS

F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS: Final = ("schedule", "cron", "?tz", "??task", "next", "??last", "??>skipped", "state")
_name = click.argument("name")


@click.group()
def schedules() -> None:
    """List, run, pause and backfill schedules; make, change and remove them at run time."""


def schedule_row(schedule: ScheduleView) -> Sequence[object]:
    """Return a schedule as a row under _COLUMNS."""
    return (
        schedule.name,
        schedule.cron,
        schedule.tz,
        schedule.task,
        "never" if schedule.next_at is None else local_of(schedule.next_at),
        None if schedule.last_at is None else local_of(schedule.last_at),
        f"{schedule.skipped:,}",
        "; ".join(filter(None, (schedule.state_text, schedule.origin_text))),
    )


_show: Final = table(_COLUMNS, schedule_row)


def _print_times(found: Times) -> None:
    now = time.time()
    for each in found.times:
        click.echo(in_zone(moment(each), zone(found.tz), now))


schedules.add_command(command(operations.list_schedules, _show), "list")
schedules.add_command(command(operations.next_times, _print_times))
schedules.add_command(command(operations.revert_schedule, _show))
schedules.add_command(command(operations.run_schedule, ok=lambda answer: answer.job is not None))
schedules.add_command(command(operations.pause_schedule))
schedules.add_command(command(operations.resume_schedule))
schedules.add_command(command(operations.remove_schedule))


def _clock(function: F) -> F:
    """When a schedule fires, and its policies."""
    options = [
        click.option("--cron", metavar="EXPR", help="Five fields, six with seconds first, or @daily."),
        click.option("--every", metavar="DURATION", help="Instead of --cron: once in each such span."),
        click.option("--tz", metavar="ZONE", help="IANA time zone of the expression. [UTC]"),
        click.option(
            "--missed",
            type=click.Choice(get_args(Missed)),
            help="Fires that nobody was there for: skip them, or make up for the latest or all. [latest]",
        ),
        click.option(
            "--overlap",
            type=click.Choice(get_args(Overlap)),
            help="Its last job has not ended: skip, queue another, or cancel the old one. [skip]",
        ),
        click.option("--grace", metavar="DURATION", help="A fire that is later than this is missed. [1m]"),
        click.option("--jitter", metavar="DURATION", help="Put its jobs off by up to this time. [0s]"),
    ]
    for option in reversed(options):
        function = option(function)
    return function


_args = click.option("--args", "named", metavar="JSON", help="Arguments: a JSON object (by name) or array.")


def _clock_of(given: dict[str, Any]) -> dict[str, Any]:
    """Take what was said of the schedule's clock out of all that was given."""
    found = {name: given.pop(name) for name in ScheduleClock.__struct_fields__}
    if found["cron"] is not None and found["every"] is not None:
        raise click.UsageError("--cron and --every are mutually exclusive; give one of them")
    return found


@schedules.command()
@_name
@click.argument("task")
@click.argument("words", metavar="[ARG]...", nargs=-1)
@_clock
@_args
@schedule_job_options
@with_json
def add(
    target: Target,
    name: str,
    task: str,
    words: tuple[str, ...],
    named: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make a schedule for TASK at run time; it survives deploys, until it is removed.

    Arguments and options of its jobs are as for `windlass enqueue`.
    """
    args, kwargs = call_arguments(words, named)
    clock = _clock_of(given)
    if clock["cron"] is None and clock["every"] is None:
        raise click.UsageError("say when it fires: --cron or --every")
    find_task(target, task)
    options: dict[str, Any] = {
        JOB_OPTIONS[option].kept: value for option, value in given_options(given).items()
    }
    job = NewJobBody(task=task, args=args, kwargs=kwargs, **options)
    schedule = NewScheduleBody(name=name, job=job, **clock)
    _report(as_json, target.operate(operations.add_schedule, schedule=schedule)[0])


@schedules.command("set")
@_name
@_clock
@click.option("--task", metavar="TASK", help="The task of its jobs, with --args and options of its own.")
@_args
@schedule_job_options
@with_json
def set_(target: Target, name: str, task: str | None, named: str | None, as_json: bool, **given: Any) -> None:
    """Change a schedule at run time, and print it; what is not given stays as it is.

    The change is kept, whatever the code declares, until `windlass schedules revert`.
    """
    changes = ScheduleClock(**_clock_of(given))
    if task is not None:
        find_task(target, task)
    answer, _ = target.operate(
        operations.set_schedule,
        name=name,
        changes=changes,
        task=task,
        call=None if named is None else call_arguments((), named),
        options=given_options(given),
    )
    _report(as_json, answer)


def _report(as_json: bool, schedule: ScheduleView) -> None:
    if as_json:
        print_json(schedule)
    else:
        _show(schedule)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write it like 2026-01-31, 2026-01-31T09:00 or 2026-01-31T09:00+01:00"
        ) from None


@schedules.command()
@_name
@click.option(
    "--from",
    "start",
    type=_moment,
    required=True,
    metavar="TIME",
    help="Start of the period, such as 2026-01-31T09:00.",
)
@click.option(
    "--to", "end", type=_moment, required=True, metavar="TIME", help="End of the period, exclusive."
)
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@with_json
def backfill(target: Target, name: str, start: datetime, end: datetime, dry_run: bool, as_json: bool) -> None:
    """Fire a schedule once for each of its times in a past period; each makes a job.

    Times without an offset are in the schedule's own time zone.
    """
    answer, said = target.operate(
        operations.backfill_schedule, name=name, start=start, end=end, dry_run=dry_run
    )
    print_answer(as_json, answer, said)
