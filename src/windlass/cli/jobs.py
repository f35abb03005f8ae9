"""The verbs about jobs: jobs lists them, job shows and steers single ones by id."""

from __future__ import annotations

import json
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any, Final

import click
import msgspec

from windlass.cli.job_page import print_job
from windlass.cli.options import JobId, filters, job_ids, limit_option, with_json
from windlass.cli.output import print_answer, print_json, print_table
from windlass.cli.settings import change_options, given_options
from windlass.cli.target import Target
from windlass.core.flow.gates import budget_of
from windlass.core.harmless import harmless
from windlass.core.ids import MAX_POSITION
from windlass.core.read_errors import READ_ERRORS
from windlass.core.states import FINISHED, State
from windlass.errors import EnqueueError, JobNotFound, WindlassError
from windlass.handles import bulk
from windlass.handles.bulk import Verb
from windlass.operations.refusals import Invalid
from windlass.operations.signals import SignalBody, list_waits, list_waits_of, send_signal
from windlass.presentation import audit
from windlass.presentation.jobs import job_as_json, labels_of, listing_as_json, priority_name, unwrap, wrap
from windlass.presentation.retries import retrying_of
from windlass.presentation.steps import StepShape, step_shapes
from windlass.presentation.text import local_of, moment, one_line, plain, span
from windlass.presentation.waiting import state_in_words, why_or_reason
from windlass.store.protocol import Store
from windlass.store.records import ClusterView, JobFilter, JobRecord, Page, WorkerRecord

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
    list_jobs(target, bulk.job_filter(**where), limit, cursor, as_json)


def list_jobs(target: Target, where: JobFilter, limit: int, cursor: str | None, as_json: bool) -> None:
    """Print one listing and, where there is more, how to go on."""

    async def work(store: Store) -> tuple[Page, ClusterView, list[WorkerRecord]]:
        page = await _page(store, where, limit, cursor)
        return page, await store.cluster_view([]), await store.workers()

    page, view, workers = target.run(work)
    if as_json:
        print_json(listing_as_json(page.jobs, page.cursor, labels_of(workers)))
        return
    now = time.time()
    print_table(_COLUMNS, [_row(job, view, now, workers) for job in page.jobs])
    if page.cursor is not None:
        click.echo(f"more jobs: --cursor {wrap(page.cursor)}", err=True)


async def _page(store: Store, where: JobFilter, limit: int, word: str | None) -> Page:
    """One full page: the store may give short ones, since it looks at a bounded number of jobs a call."""
    found: list[JobRecord] = []
    try:
        cursor = None if word is None else unwrap(word)
        page = await store.jobs(where, limit, cursor, bulk.MOMENT)
    except ValueError:
        if word is None:
            raise
        raise click.BadParameter(
            f"{word!r} is not a cursor; take it from a listing", param_hint="--cursor"
        ) from None
    while True:
        found += page.jobs
        cursor = page.cursor
        if cursor is None or len(found) >= limit:
            return Page(found, cursor)
        page = await store.jobs(where, limit - len(found), cursor, bulk.MOMENT)


def _row(job: JobRecord, view: ClusterView, now: float, workers: Sequence[WorkerRecord]) -> Sequence[object]:
    last = job.errors[-1] if job.errors else None
    message = one_line(f"{last.type}: {last.message}", 60) if last else None
    if job.state in FINISHED:
        why = message or job.reason
    elif job.state is State.RETRYING:  # what went wrong says more than that it waits for its time
        why = job.reason or message
    else:
        why = why_or_reason(job, view, now, workers) or message
    attempt = f"{job.attempt}/{job.options.max_attempts}"
    priority = priority_name(job.priority)
    age = span(now - job.enqueued_at)
    return str(job.id), job.task, job.queue, priority, state_in_words(job), attempt, age, why


@click.group()
def job() -> None:
    """Show, follow, retry, cancel, delete and replay jobs, by id."""


@job.command()
@job_ids
@click.option("--traceback", is_flag=True, help="Include the traceback of every failed attempt.")
@with_json
def show(target: Target, ids: tuple[int, ...], traceback: bool, as_json: bool) -> None:
    """Show everything about jobs: state, why they wait, attempts, errors, payload, result, steps, times."""

    async def work(store: Store) -> list[int]:
        looked = {id: await store.job(id) for id in ids}
        found = [record for record in looked.values() if record is not None]
        if as_json:
            labels = labels_of(await store.workers())
            shapes = [
                job_as_json(record, labels) | {"steps": [plain(step) for step in await _steps(store, record)]}
                for record in found
            ]
            print_json({"jobs": shapes})
        else:
            await _print_pages(store, found, traceback)
        return [id for id, record in looked.items() if record is None]

    _refuse_unknown(target.run(work))


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


async def _print_pages(store: Store, found: Sequence[JobRecord], traceback: bool) -> None:
    view = await store.cluster_view([])
    workers = await store.workers()
    budgets = await store.budgets() if any(budget_of(record.reason) for record in found) else None
    for place, record in enumerate(found):
        now = time.time()
        if place:
            click.echo()
        # Any of them may be a parent: one enqueued by name does not know that its task is chunked.
        parent = await store.parent(record.id)
        retrying = {} if parent is None else await retrying_of(store, [parent])
        print_job(
            record,
            why_or_reason(record, view, now, workers, budgets),
            now,
            traceback=traceback,
            parent=parent,
            workers=workers,
            retrying=retrying.get(record.id),
            steps=await _steps(store, record),
        )


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


async def _steps(store: Store, record: JobRecord) -> list[StepShape]:
    """What the job has done [W1]."""
    steps = await store.steps(record.id)
    return step_shapes(steps, await store.now()) if steps else []


def _steer_by_id(verb: Verb, help: str) -> None:
    """The verb that does one thing to jobs by id."""

    @job.command(verb, help=help)
    @job_ids
    @with_json
    def command(target: Target, ids: tuple[int, ...], as_json: bool) -> None:
        steer(target, verb, lambda store: bulk.act(store, verb, ids), as_json)


_steer_by_id("retry", "Make dead, scheduled or retrying jobs ready now, with their attempts reset.")
_steer_by_id("cancel", "Cancel jobs: waiting ones at once, running ones as soon as their worker is notified.")
_steer_by_id("delete", "Delete jobs and their history; running ones are asked to stop instead.")


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
    app = target.app
    if target.app_name is not None:
        app.discover(*app.settings.imports)
    answer = target.act(
        lambda store: app.job(id)._changed(store, changes),
        lambda answer: [audit.changed(id, changes.items(), answer)],
    )
    print_answers({id: answer}, as_json)


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

    async def work(store: Store) -> dict[int, str | WindlassError]:
        return {id: await _replayed(target, id) for id in dict.fromkeys(ids)}

    copies = target.act(work, _replays)
    made = {id: copy for id, copy in copies.items() if isinstance(copy, str)}
    if as_json:
        print_json({"jobs": [{"id": str(id), "replayed_as": made.get(id)} for id in copies]})
    else:
        for id, copy in made.items():
            click.echo(f"{id} replayed as {copy}")
    _refuse_unknown([id for id, copy in copies.items() if isinstance(copy, JobNotFound)])
    for refusal in copies.values():
        if not isinstance(refusal, str):
            raise refusal


def _replays(copies: Mapping[int, str | WindlassError]) -> list[audit.AuditEntry]:
    return [audit.replayed(id, int(copy)) for id, copy in copies.items() if isinstance(copy, str)]


async def _replayed(target: Target, id: int) -> str | WindlassError:
    """The id of the copy, or why there is none: one that is refused does not keep the others waiting."""
    try:
        return str(await target.app.job(id).areplay())
    except (JobNotFound, EnqueueError) as error:
        return error


def steer(
    target: Target, verb: str, act: Callable[[Store], Awaitable[Mapping[int, str]]], as_json: bool
) -> None:
    """Do something to jobs named by id and print what each answered; exit code 1 if one was refused."""
    print_answers(target.act(act, lambda answers: audit.steered(verb, answers)), as_json)


def print_answers(answers: Mapping[int, str], as_json: bool) -> None:
    """What each job answered; exit code 1 if one was refused."""
    if as_json:
        print_json({"jobs": [{"id": str(id), "answer": answer} for id, answer in answers.items()]})
    else:
        for id, answer in answers.items():
            if answer != "not_found":
                click.echo(f"{id} {_WHY_NOT.get(answer, answer)}")
    _refuse_unknown([id for id, answer in answers.items() if answer == "not_found"])
    if not _GOOD.issuperset(answers.values()):
        raise SystemExit(1)


def _refuse_unknown(ids: Sequence[int]) -> None:
    if ids:
        named = ", ".join(map(str, ids))
        raise click.ClickException(
            f"no job {named}: it never existed, was deleted, or its retention has passed; see `windlass jobs`"
        )
