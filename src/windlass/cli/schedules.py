"""The verbs about schedules: list them, run, pause and resume one, show its next times, make up for past
ones, and make, change and remove one at run time [K4]. What they do is in `windlass.tasks.schedule_steering`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar, get_args

import click

from windlass.cli.enqueue import call_arguments, find_task
from windlass.cli.options import on_store, with_json
from windlass.cli.output import print_answer, print_json, print_listing, print_table
from windlass.cli.settings import given_options, schedule_job_options
from windlass.cli.target import Target, refusals, with_now
from windlass.core.counts import plural
from windlass.core.cron import Missed, Overlap, zone
from windlass.errors import ConfigurationError
from windlass.presentation import audit
from windlass.presentation.flow import ScheduleShape, origin_in_words
from windlass.presentation.text import in_zone, iso, local, one_line
from windlass.store.protocol import Store
from windlass.store.records import NewJob, ScheduleRecord, WorkerRecord
from windlass.store.schedules import origin
from windlass.tasks import schedule_steering as clock
from windlass.tasks.schedule_options import as_before, call_of, changed, made_of

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Any])
_COLUMNS: Final = ("schedule", "cron", "?tz", "??task", "next", "??last", "??>skipped", "state")
_name = click.argument("name")


@click.group()
def schedules() -> None:
    """List, run, pause and backfill schedules; make, change and remove them at run time."""


@schedules.command("list")
@with_json
def list_(target: Target, as_json: bool) -> None:
    """List schedules: when each fires next and fired last, whether it is paused, and its error if any."""

    async def look(store: Store) -> tuple[list[ScheduleRecord], list[WorkerRecord]]:
        return await store.schedules(), await store.workers()

    (found, workers), now = target.run(with_now(look))
    print_listing(
        as_json,
        "schedules",
        found,
        lambda each: ScheduleShape.of(each, workers),
        _COLUMNS,
        lambda each: schedule_row(each, now, workers),
    )


def schedule_row(
    schedule: ScheduleRecord, now: float, workers: Iterable[WorkerRecord] = ()
) -> Sequence[object]:
    """A schedule as it is listed."""
    state = ("paused" if schedule.paused else "", schedule.error, origin_in_words(origin(schedule, workers)))
    return (
        schedule.name,
        schedule.cron,
        schedule.tz,
        schedule.task,
        "never" if schedule.next_at is None else local(schedule.next_at, now),
        None if schedule.last_at is None else local(schedule.last_at, now),
        f"{schedule.skipped:,}",
        "; ".join(filter(None, state)),
    )


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


_CLOCK: Final = ("every", "tz", "missed", "overlap", "grace", "jitter")
_args = click.option("--args", "named", metavar="JSON", help="Arguments: a JSON object (by name) or array.")


def _clock_of(cron: str | None, given: dict[str, Any]) -> dict[str, Any]:
    """What was said of its clock but its expression, taken out of all that was given."""
    if cron is not None and given["every"] is not None:
        raise click.UsageError("--cron and --every are mutually exclusive; give one of them")
    found = {name: given.pop(name) for name in _CLOCK}
    return {name: value for name, value in found.items() if value is not None}


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
    cron: str | None,
    named: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Make a schedule for TASK at run time; it survives deploys, until it is removed.

    Arguments and options of its jobs are as for `windlass enqueue`.
    """
    args, kwargs = call_arguments(words, named)
    clocked = _clock_of(cron, given)
    if cron is None and "every" not in clocked:
        raise click.UsageError("say when it fires: --cron or --every")
    wanted = find_task(target, task).using(**given_options(given))

    async def make(store: Store) -> ScheduleRecord:
        placed = await wanted._aplaced()
        job = call_of(name, placed, {"args": args, "kwargs": kwargs})
        return await clock.add(store, made_of(name, cron, job, clocked))

    _report(target, as_json, "added", make)


@schedules.command("set")
@_name
@_clock
@click.option("--task", metavar="TASK", help="The task of its jobs, with --args and options of its own.")
@_args
@schedule_job_options
@with_json
def set_(
    target: Target,
    name: str,
    cron: str | None,
    task: str | None,
    named: str | None,
    as_json: bool,
    **given: Any,
) -> None:
    """Change a schedule at run time, and print it; what is not given stays as it is.

    The change is kept, whatever the code declares, until `windlass schedules revert`.
    """
    clocked = _clock_of(cron, given)
    options = given_options(given)

    def job_for(known: ScheduleRecord) -> NewJob | None:
        if task is None and named is None and not options:
            return None
        wanted = as_before(target.app.named(known.task), known) if task is None else find_task(target, task)
        wanted = wanted.using(**options)
        if task is None and named is None:  # its arguments stay as they are, sealed or not
            return wanted._template.job(known.task, known.payload, known.queue)
        args, kwargs = call_arguments((), named)
        return call_of(name, wanted, {"args": args, "kwargs": kwargs})

    async def make(store: Store) -> ScheduleRecord:
        return await clock.change(store, name, lambda known: changed(known, cron, job_for(known), clocked))

    _report(target, as_json, "changed", make)


@schedules.command()
@_name
@with_json
def revert(target: Target, name: str, as_json: bool) -> None:
    """Undo what was changed at run time: the schedule is as the code declares it again."""
    _report(target, as_json, "back to what the code declares", lambda store: clock.revert(store, name))


def _report(
    target: Target, as_json: bool, did: str, work: Callable[[Store], Awaitable[ScheduleRecord]]
) -> None:
    """Make or change a schedule, and print it. What is wrong with it becomes one line."""

    async def checked(store: Store) -> tuple[ScheduleRecord, list[WorkerRecord], float]:
        try:
            return await work(store), await store.workers(), await store.now()
        except (LookupError, ValueError, ConfigurationError) as error:
            raise click.ClickException(one_line(str(error))) from error

    deed = lambda done: [audit.schedule(done[0].name, f"{did}: {done[0].cron}")]  # noqa: E731
    record, workers, now = target.act(checked, deed, create=True)
    if as_json:
        print_json({"schedule": ScheduleShape.of(record, workers)})
    else:
        print_table(_COLUMNS, [schedule_row(record, now, workers)])


@schedules.command()
@_name
@with_json
def run(target: Target, name: str, as_json: bool) -> None:
    """Fire a schedule now, even if it is paused or its last job still runs; its next time does not change."""
    job = _on_schedule(
        target,
        name,
        lambda store: clock.run_now(store, name),
        lambda job: [audit.schedule(name, "run now", job)],
    )
    made = f"{name} made job {job}; follow it with `windlass job show {job}`"
    if job is None:
        made = (
            f"{name} made no job: the runs of its unique key died again and again, and it is parked for a "
            "while; enqueue the task by hand to run it all the same"
        )
    shape = {"schedule": name, "job": None if job is None else str(job)}
    print_answer(as_json, shape, made, ok=job is not None)


@schedules.command()
@_name
@on_store
def pause(target: Target, name: str) -> None:
    """Stop a schedule from firing until it is resumed."""
    _on_schedule(
        target, name, lambda store: clock.pause(store, name), lambda _: [audit.schedule(name, "paused")]
    )
    click.echo(f"{name} paused")


@schedules.command()
@_name
@on_store
def resume(target: Target, name: str) -> None:
    """Let a schedule fire again, from its next time on; times missed during the pause are not made up."""
    work = with_now(lambda store: clock.resume(store, name))
    record, now = _on_schedule(target, name, work, lambda _: [audit.schedule(name, "resumed")])
    assert record.next_at is not None  # it was computed just now
    click.echo(f"{name} resumed; it fires next {in_zone(record.next_at, zone(record.tz), now)}")


@schedules.command("next")
@_name
@click.option(
    "-n",
    type=click.IntRange(1, 1000),
    default=5,
    show_default=True,
    metavar="N",
    help="How many times to print.",
)
@with_json
def next_(target: Target, name: str, n: int, as_json: bool) -> None:
    """Print the next times of a schedule, in its own time zone."""
    times, now = _on_schedule(target, name, with_now(lambda store: clock.next_times(store, name, n)))
    if as_json:
        print_json({"schedule": name, "times": [iso(time.timestamp()) for time in times]})
        return
    for time in times:
        assert time.tzinfo is not None
        click.echo(in_zone(time.timestamp(), time.tzinfo, now))


@schedules.command()
@_name
@click.option(
    "--from", "start", required=True, metavar="TIME", help="Start of the period, such as 2026-01-31T09:00."
)
@click.option("--to", "end", required=True, metavar="TIME", help="End of the period, exclusive.")
@click.option("--dry-run", is_flag=True, help="Only print what would be done.")
@with_json
def backfill(target: Target, name: str, start: str, end: str, dry_run: bool, as_json: bool) -> None:
    """Fire a schedule once for each of its times in a past period; each makes a job.

    Times without an offset are in the schedule's own time zone.
    """

    async def plan(store: Store) -> tuple[list[float], ScheduleRecord]:
        found = await clock.find(store, name)
        span = (_moment(text, found.tz, option) for text, option in ((start, "--from"), (end, "--to")))
        return await clock.times_between(store, name, *span), found

    times, found = _on_schedule(target, name, plan)
    if not as_json:
        ends = [f"{datetime.fromtimestamp(time, zone(found.tz)):%Y-%m-%d %H:%M %Z}" for time in times]
        shown = f": {' to '.join(dict.fromkeys((ends[0], ends[-1])))}" if ends else ""
        click.echo(f"{name} has {plural(len(times), 'time')} in this span{shown}")
    made = 0
    if not dry_run:
        made = target.act(
            lambda store: clock.fire_at(store, name, times),
            lambda made: [audit.schedule(name, f"backfill: {plural(made, 'job')} made")],
        )
    if as_json:
        print_json({"schedule": name, "times": [iso(time) for time in times], "made": made})
    elif not dry_run:
        others = "; for the others one stands that has the same unique key" if made < len(times) else ""
        click.echo(f"{plural(made, 'job')} made{others}")


@schedules.command()
@_name
@on_store
def remove(target: Target, name: str) -> None:
    """Remove a schedule; its jobs stay. If code still declares it, the next worker to start adds it again."""
    _on_schedule(
        target, name, lambda store: store.drop_schedule(name), lambda _: [audit.schedule(name, "removed")]
    )
    click.echo(f"{name} is removed; if code still declares it, the next worker to start adds it again")


def _on_schedule(
    target: Target,
    name: str,
    work: Callable[[Store], Awaitable[T]],
    entries: Callable[[T], Iterable[audit.AuditEntry]] = lambda _: (),
) -> T:
    """Do something with a schedule; say in one line that there is none, or what is wrong with it. `entries`
    are for the timeline, where it was more than a look."""

    async def checked(store: Store) -> T:
        try:
            await clock.find(store, name)
        except LookupError as error:
            raise click.ClickException(one_line(str(error))) from error
        return await work(store)

    with refusals(f"schedule {one_line(name, 80)}: "):
        return target.act(checked, entries)


def _moment(text: str, tz: str, option: str) -> datetime:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise click.BadParameter(
            f"{text!r} is not a time; write it like 2026-01-31, 2026-01-31T09:00 or 2026-01-31T09:00+01:00",
            param_hint=option,
        ) from None
    return moment if moment.tzinfo is not None else moment.replace(tzinfo=zone(tz))
