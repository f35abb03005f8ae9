"""The verbs about jobs: jobs lists them, job shows and manages single ones by id."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Sequence
from typing import Any, Final

import click
import msgspec

from windlass.cli.job_page import print_job
from windlass.cli.options import JobId, filters, job_ids, limit_option, with_json
from windlass.cli.output import print_answer, print_json, print_table
from windlass.cli.settings import change_options, given_options
from windlass.cli.target import Target
from windlass.cli.verbs import command
from windlass.core.harmless import harmless
from windlass.core.ids import MAX_POSITION
from windlass.core.read_errors import READ_ERRORS
from windlass.errors import EnqueueError, JobNotFound, WindlassError
from windlass.operations import jobs as operations
from windlass.operations.job_views import JobView, ListedJob
from windlass.operations.jobs import Answers
from windlass.operations.operation import Ops
from windlass.operations.refusals import Conflict, Invalid
from windlass.operations.signals import SignalBody, list_waits, list_waits_of, send_signal
from windlass.operations.walks import job_filter
from windlass.presentation.text import local_of, moment, span
from windlass.store.records import JobFilter, WorkerRecord

_GOOD = frozenset({"changed", "dead", "retried", "cancelled", "requested", "deleted"})
_WHY_NOT = {
    "unchanged": "unchanged: only dead, scheduled and retrying jobs can be retried, and only while no other "
    "holds their unique key",
    "finished": "has already finished; nothing was changed",
    "requested": "is running and was asked to stop",
    "running": "is running; nothing was changed",
    "ended": "has ended; nothing was changed",
}
_COLUMNS = ("!id", "task", "queue", "??priority", "state", ">attempt", "?>age", "reason")
cursor_option: Final = click.option("--cursor", metavar="TEXT", help="Continue an earlier listing.")


@click.command()
@filters(state=True)
@limit_option(50)
@cursor_option
@with_json
def jobs(target: Target, limit: int, cursor: str | None, as_json: bool, **where: Any) -> None:
    """List jobs, newest first."""
    list_jobs(target, job_filter(**where), limit, cursor, as_json)


def list_jobs(target: Target, where: JobFilter, limit: int, cursor: str | None, as_json: bool) -> None:
    """Print one listing and, where there is more, how to go on."""
    try:
        found = target.with_ops(lambda ops: operations.search(ops, where, limit, cursor))
    except Invalid as error:
        raise click.BadParameter(f"{cursor!r}: {error}", param_hint="--cursor") from None
    if as_json:
        print_json(found)
        return
    now = time.time()
    print_table(_COLUMNS, [_row(job, now) for job in found.jobs])
    if found.cursor is not None:
        click.echo(f"more jobs: --cursor {found.cursor}", err=True)


def _row(job: ListedJob, now: float) -> Sequence[object]:
    attempt = f"{job.attempt}/{job.max_attempts}"
    age = None if job.enqueued_at is None else span(now - moment(job.enqueued_at))
    return job.id, job.task, job.queue, job.priority, job.state_text, attempt, age, job.about()


@click.group()
def job() -> None:
    """Show, follow, retry, cancel, delete and replay jobs, by id."""


@job.command()
@job_ids
@click.option("--traceback", is_flag=True, help="Include the traceback of every failed attempt.")
@with_json
def show(target: Target, ids: tuple[int, ...], traceback: bool, as_json: bool) -> None:
    """Show everything about jobs: state, why they wait, attempts, errors, payload, result, steps, times."""

    async def look(ops: Ops) -> tuple[list[JobView], list[int], list[WorkerRecord]]:
        found, unknown = list[JobView](), list[int]()
        for id in dict.fromkeys(ids):
            try:
                found.append(await operations.show_job(ops, id))
            except JobNotFound:
                unknown.append(id)
        return found, unknown, (await ops.state()).workers

    found, unknown, workers = target.with_ops(look)
    if as_json:
        print_json({"jobs": found})
    for place, view in enumerate(() if as_json else found):
        if place:
            click.echo()
        print_job(view, time.time(), traceback=traceback, workers=workers)
    _refuse_unknown(unknown)


@job.command()
@click.argument("id", metavar="ID", type=JobId())
@click.option(
    "--after",
    type=click.IntRange(0, MAX_POSITION),
    default=0,
    metavar="POSITION",
    help="Go on from here. [0]",
)
@click.option("--follow", is_flag=True, help="Go on until the job has ended.")
@with_json
def events(target: Target, id: int, after: int, follow: bool, as_json: bool) -> None:
    """Print what a job has emitted: text as it flows, other values as lines of JSON."""
    from windlass.cli.job_events import print_events

    if not target.run(lambda store: print_events(store, id, after, follow, as_json)):
        _refuse_unknown([id])


@job.command("signal")
@click.argument("id", metavar="ID", type=JobId())
@click.argument("name")
@click.argument("value", required=False, default="null", metavar="[JSON]")
@click.option("--idempotency-key", metavar="KEY", help="Send nothing where the job was sent one with it.")
@with_json
def signal(
    target: Target, id: int, name: str, value: str, idempotency_key: str | None, as_json: bool
) -> None:
    """Send a signal to a job that waits for it, or will, with a value.

    Where the job waits for a value of a type, one that cannot be of it is refused, and the wait goes on.
    """
    try:
        given = msgspec.json.decode(value)
    except READ_ERRORS as error:
        raise click.BadParameter(
            f"{value!r} is no JSON ({error}); a text is written '\"yes\"'", param_hint="JSON"
        ) from None
    body = SignalBody(value=given, idempotency_key=idempotency_key)
    try:
        sent, said = target.operate(send_signal, id=id, name=name, body=body)
    except Invalid as error:
        raise click.BadParameter(str(error), param_hint="JSON") from None
    print_answer(as_json, sent, said)
    if sent.answer == "kept":
        waits = target.operate(list_waits_of, id=id)[0].waits
        if others := sorted({wait.signal for wait in waits} - {name}):
            click.echo(
                f"job {id} waits for {harmless(', '.join(others))} now, and for no signal {harmless(name)}: "
                "what was sent is kept until it does",
                err=True,
            )


@click.command()
@click.option("--signal", "name", metavar="NAME", help="Only those that wait for this signal.")
@limit_option(50)
@cursor_option
@with_json
def waits(target: Target, name: str | None, limit: int, cursor: str | None, as_json: bool) -> None:
    """List jobs that wait for a signal: for which, since when, until when; newest first."""
    try:
        found, _ = target.operate(list_waits, signal=name, limit=limit, cursor=cursor)
    except Invalid as error:
        raise click.BadParameter(str(error), param_hint="--cursor") from None
    if as_json:
        print_json(found)
        return
    now = time.time()
    rows = [
        (
            *(each.job, each.signal, each.task, each.queue, span(now - moment(each.since))),
            "for ever" if each.until is None else local_of(each.until, now),
        )
        for each in found.waits
    ]
    print_table(("!id", "signal", "task", "queue", ">since", "until"), rows)
    if len(found.waits) == limit:
        click.echo(f"more jobs: --cursor {found.waits[-1].cursor}", err=True)


@job.command()
@click.argument("id", type=JobId())
@change_options
@click.option("--args", "named", metavar="JSON", help="New arguments: a JSON object (by name) or array.")
@with_json
def change(target: Target, id: int, named: str | None, as_json: bool, **options: Any) -> None:
    """Change a waiting job in place: it keeps its id and its keys.

    With --app, new arguments are checked against the task's annotations. Exit code 1 if the job runs or has
    ended: nothing is changed then.
    """
    changes: dict[str, Any] = {**given_options(options), **_new_arguments(named)}
    if target.app_name is not None:
        target.app.discover(*target.app.settings.imports)
    answers, _ = target.operate(operations.change_job, id=id, changes=changes)
    show_answers(answers, as_json)


def _new_arguments(named: str | None) -> dict[str, Any]:
    if named is None:
        return {}
    try:
        given = json.loads(named)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(f"this is not JSON: {error}", param_hint="--args") from None
    if not isinstance(given, dict | list):
        raise click.BadParameter("give a JSON object or array", param_hint="--args")
    return {"kwargs" if isinstance(given, dict) else "args": given}


@job.command()
@job_ids
@with_json
def replay(target: Target, ids: tuple[int, ...], as_json: bool) -> None:
    """Enqueue copies of finished jobs; each copy records which job it replays."""

    async def work(ops: Ops) -> dict[int, str | WindlassError | None]:
        return {id: await _replayed(ops, id) for id in dict.fromkeys(ids)}

    copies = target.with_ops(work)
    made = {id: copy for id, copy in copies.items() if isinstance(copy, str)}
    if as_json:
        print_json({"jobs": [{"id": str(id), "replayed_as": made.get(id)} for id in copies]})
    else:
        for id, copy in made.items():
            click.echo(f"{id} replayed as {copy}")
    _refuse_unknown([id for id, copy in copies.items() if isinstance(copy, JobNotFound)])
    for refusal in copies.values():
        if isinstance(refusal, WindlassError):
            raise refusal


async def _replayed(ops: Ops, id: int) -> str | WindlassError | None:
    """Return the id of the copy, or why there is none: a refused one does not keep the others waiting."""
    try:
        return (await operations.replay_job(ops, id)).id
    except (JobNotFound, EnqueueError, Conflict) as error:
        return error


def show_answers(answers: Answers, as_json: bool) -> None:
    """Print what each job answered; exit code 1 if one was refused."""
    if as_json:
        print_json(answers)
    else:
        _print_answers(answers)
    if not _all_done(answers):
        raise SystemExit(1)


def _print_answers(answers: Answers) -> None:
    for id, answer in answers.answers.items():
        if answer != "not_found":
            click.echo(f"{id} {_WHY_NOT.get(answer, answer)}")


def _all_done(answers: Answers) -> bool:
    _refuse_unknown([id for id, answer in answers.answers.items() if answer == "not_found"])
    return _GOOD.issuperset(answers.answers.values())


def _refuse_unknown(ids: Iterable[int | str]) -> None:
    if named := ", ".join(map(str, ids)):
        raise click.ClickException(
            f"no job {named}: it never existed, was deleted, or its retention has passed; see `windlass jobs`"
        )


for each in (operations.retry_jobs, operations.cancel_jobs, operations.delete_jobs):
    job.add_command(command(each, _print_answers, _all_done))
