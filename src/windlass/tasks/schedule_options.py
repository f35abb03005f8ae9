"""The options of a schedule, as code and callers write them: read, checked, and turned into the record that
the store keeps [K4]. An expression or a time zone that is wrong is refused here, before it is stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypedDict, get_args
from zoneinfo import ZoneInfo

import msgspec

from windlass.core import cron as crons
from windlass.core.cron import BadSchedule, Missed, Overlap
from windlass.core.durations import Duration, seconds
from windlass.core.names import check_name
from windlass.errors import ConfigurationError
from windlass.store.records import NewJob, NewSchedule, ScheduleRecord
from windlass.store.schedules import definition_of
from windlass.tasks.options import Template
from windlass.tasks.task import Task

NOT_OF_SCHEDULES: Final = ("delay", "run_at", "on_conflict", "idempotency_key")
"""Options of a job that a schedule does not keep."""

_PLAIN: Final = NewJob(task="t", payload="{}")


class RunTimeOptions(TypedDict, total=False):
    """The options of `app.schedules.add(...)` besides name, expression and task."""

    every: Duration
    """Instead of an expression: fire once in each such span, "10s" or timedelta(hours=2)."""
    tz: str | ZoneInfo
    """The IANA time zone of the expression; UTC without it."""
    args: Sequence[Any]
    """Positional arguments of its jobs."""
    kwargs: Mapping[str, Any]
    """Named arguments of its jobs."""
    missed: Missed
    """The policy for missed fires: skip, latest (default) or all."""
    overlap: Overlap
    """The policy for a fire whose last job has not ended: skip (default), queue or cancel."""
    grace: Duration
    """A fire that is later than this is missed; a minute without it."""
    jitter: Duration
    """Its jobs are put off by up to this time."""


class ScheduleOptions(RunTimeOptions, total=False):
    """The options of `@app.schedule(...)` besides the expression."""

    name: str
    """The schedule's name; without it, that of its task."""


def expression(name: str, cron: object, every: Any = None) -> str | None:
    """When it fires, written in one way or the other; None: nothing was said. Raises ConfigurationError."""
    if cron is not None and every is not None:
        raise ConfigurationError(f"schedule {name}: give an expression or every=, not both")
    if cron is not None and not isinstance(cron, str):
        raise ConfigurationError(
            f"schedule {name}: {cron!r} is no expression: write '0 9 * * MON-FRI', or every='10s'"
        )
    try:
        return cron if every is None else crons.every(every)
    except BadSchedule as error:
        raise ConfigurationError(f"schedule {name}: {error}") from None


def made_of(name: str, cron: str | None, job: NewJob, options: Mapping[str, Any]) -> NewSchedule:
    """A schedule whose jobs are like this one. Raises ConfigurationError."""
    check_name("schedule", name)
    text = expression(name, cron, options.get("every"))
    if text is None:
        raise ConfigurationError(f"schedule {name} needs an expression, or every='10s'")
    fields = {**_of_job(name, job), **clock_fields(name, options)}
    return checked(NewSchedule(name=name, cron=text, **fields))


def changed(
    known: ScheduleRecord, cron: str | None, job: NewJob | None, options: Mapping[str, Any]
) -> NewSchedule:
    """A schedule with changes: what is not given stays. Raises ConfigurationError."""
    text = expression(known.name, cron, options.get("every"))
    fields: dict[str, Any] = {
        **({} if text is None else {"cron": text}),
        **({} if job is None else _of_job(known.name, job)),
        **clock_fields(known.name, options),
    }
    return checked(msgspec.structs.replace(definition_of(known), **fields))


def call_of(name: str, task: Task[..., Any], options: Mapping[str, Any]) -> NewJob:
    """The job of a task with the arguments that were given. Raises ConfigurationError."""
    if task._template.connection is not None:
        raise _lost(name, ["connection"])
    return task._job(task._encode(tuple(options.get("args", ())), dict(options.get("kwargs", {}))))


def as_before(task: Task[..., Any], known: ScheduleRecord) -> Task[..., Any]:
    """A task with the options that the jobs of a schedule have."""
    task = task.using()
    task._template = Template(queue=known.queue, priority=known.priority, options=known.options)
    return task


def checked(schedule: NewSchedule) -> NewSchedule:
    """The schedule, if it ever fires. Raises ConfigurationError."""
    try:
        crons.check(schedule.cron, schedule.tz)
    except BadSchedule as error:
        raise ConfigurationError(f"schedule {schedule.name}: {error}") from None
    return schedule


def _of_job(name: str, job: NewJob) -> dict[str, Any]:
    """Return the fields of a job that a schedule keeps. What would be given and then not heeded is
    refused."""
    if lost := [option for option in NOT_OF_SCHEDULES if getattr(job, option) != getattr(_PLAIN, option)]:
        raise _lost(name, lost)
    return {field: getattr(job, field) for field in ("task", "payload", "queue", "priority", "options")}


def _lost(name: str, options: list[str]) -> ConfigurationError:
    return ConfigurationError(
        f"schedule {name}: its task has {', '.join(options)} from using(…), which a schedule cannot keep; "
        "leave it out: the expression and jitter= set the time, overlap= handles fires that overlap"
    )


def clock_fields(name: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Read the options about its clock and its policies."""
    found: dict[str, Any] = {}
    if "tz" in options:
        found["tz"] = _zone(name, options["tz"])
    for option, words in (("missed", Missed), ("overlap", Overlap)):
        if option in options:
            found[option] = _word(name, option, options[option], words)
    for option in ("grace", "jitter"):
        if option in options:
            found[option] = _span(name, option, options[option])
    return found


def _zone(name: str, value: Any) -> str:
    """The name of a time zone."""
    zone = value.key if isinstance(value, ZoneInfo) else value
    if not isinstance(zone, str):
        raise ConfigurationError(f"schedule {name}: tz={value!r} is not a time zone; write tz='Europe/Paris'")
    return zone


def _word(name: str, option: str, value: Any, words: Any) -> Any:
    if value not in get_args(words):
        raise ConfigurationError(
            f"schedule {name}: {option}={value!r} is not one of {', '.join(get_args(words))}"
        )
    return value


def _span(name: str, option: str, value: Any) -> float:
    try:
        return seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"schedule {name}: {option}: {error}") from None
