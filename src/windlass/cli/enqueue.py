"""The verb that makes a job: enqueue. Without --app it needs nothing but the task's name [E1]."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any, Final, NoReturn

import click

from windlass.cli.options import Span, json_option, on_store
from windlass.cli.output import print_json
from windlass.cli.settings import given_options, job_options
from windlass.cli.target import Target
from windlass.core.abilities import in_words, missing
from windlass.core.names import did_you_mean, nearest
from windlass.core.states import State
from windlass.errors import ConfigurationError, ResultTimeout, StoreError
from windlass.handles.job import Job
from windlass.operations.job_views import FailureShape
from windlass.presentation.text import kept_line, one_line, parsed
from windlass.presentation.waiting import abilities_in
from windlass.store.protocol import Store
from windlass.store.records import JobRecord
from windlass.tasks.task import Task

_EVER = "ever"
INTERRUPTED: Final = 130
"""The exit code of a program that Ctrl-C has ended: 128 + SIGINT."""


@click.command()
@click.argument("task")
@click.argument("words", metavar="[ARG]...", nargs=-1)
@click.option("--args", "named", metavar="JSON", help="Arguments: a JSON object (by name) or array.")
@job_options
@click.option(
    "--wait",
    type=Span("; write --wait=30s, or put a bare --wait last", ever=_EVER),
    is_flag=False,
    flag_value=_EVER,
    metavar="[DURATION]",
    help="Wait for the job and print its result; exit code 1 if it is dead or cancelled.",
)
@on_store
@json_option
def enqueue(
    target: Target,
    task: str,
    words: tuple[str, ...],
    named: str | None,
    wait: float | None,
    as_json: bool,
    **options: Any,
) -> None:
    """Enqueue a job of TASK, by name: its code need not be installed here.

    An ARG that is valid JSON is read as JSON, any other as text: 7 is a number, '"7"' and seven are text.
    Write -- before an ARG that begins with a dash. With --app, arguments are checked against the task's
    annotations, and the task's own queue and attempts apply. Without --queue and --app the job goes to the
    queue that live workers say it belongs to.
    """
    args, kwargs = call_arguments(words, named)
    wanted = find_task(target, task).using(**given_options(options))
    made: list[Job[Any]] = []

    async def work(store: Store) -> tuple[Job[Any], JobRecord | None]:
        placed = await wanted._aplaced()
        job = await placed.aenqueue(*args, **kwargs)
        made.append(job)
        if not as_json:
            click.echo(f"{job.id} {job.receipt}")
        needs = placed.abilities
        if note := await _nobody(store, task, placed.queue, wanted._is_unplaced, needs):
            click.echo(f"Note: {note}", err=True)
        return job, None if wait is None else await _end(store, job, wait)

    try:
        job, ended = target.run(work, create=True)
    except KeyboardInterrupt:
        if not made:
            raise
        _let_go(made[0])
    if as_json:
        print_json({"id": str(job.id), "status": job.receipt, "task": task, **_end_as_json(ended)})
    elif ended is not None and ended.state is State.SUCCEEDED:
        click.echo(kept_line(ended.result or "null", 1_100_000))
    if ended is not None and ended.state is not State.SUCCEEDED:
        _fail(ended)


async def _nobody(store: Store, task: str, queue: str, guessed: bool, needs: str | None) -> str | None:
    """Say that no live worker would run a job of this task in this queue, which needs these
    abilities. `guessed`: nothing here has named the queue."""
    try:
        if not (await store.cluster_view([])).serving.get(queue):
            if guessed and await store.published_queue(task) is None:
                return (
                    f"no live worker knows task {task}, so the job waits in queue {queue}, which none "
                    f"serves. Serve it (windlass worker MODULE:APP -q {queue}), or cancel the job and name "
                    f"its queue with --queue or --app{await _meant(store, task, guessed)}"
                )
            return (
                f"no live worker serves queue {queue}; the job waits until one does: "
                f"windlass worker MODULE:APP -q {queue}"
            )
        if await store.published_queue(task) is None:
            waits = f"no live worker knows task {task}; the job waits until one of queue {queue} does"
            return waits + await _meant(store, task, guessed)
        if needs and (lacking := missing(needs, abilities_in(queue, await store.workers()))):
            return (
                f"no live worker of queue {queue} has {in_words(lacking)}; the job waits until one does: "
                f"windlass worker MODULE:APP -q {queue} --ability {' --ability '.join(needs.split(','))}"
            )
    except StoreError:  # a role that may only enqueue cannot know; and the job is made, whatever this says
        pass
    return None


async def _meant(store: Store, task: str, guessed: bool) -> str:
    """Ask for the task whose name was misspelt, of those that live workers know or that have run. Where its
    queue was guessed, the first of these were asked for."""
    known = await store.published_tasks()
    if guessed and nearest(task, known):
        return ""
    ran = {sample.task for sample in await store.totals()} - {""}
    return did_you_mean(task, {*ran, *known})


def _let_go(job: Job[Any]) -> NoReturn:
    """End on Ctrl-C as programs do; the job is none of those that it stops."""
    click.echo(
        f"No longer waiting. Job {job.id} goes on: `windlass job show {job.id}` shows how it stands, "
        f"`windlass job cancel {job.id}` stops it.",
        err=True,
    )
    raise SystemExit(INTERRUPTED)


async def _end(store: Store, job: Job[Any], wait: float) -> JobRecord:
    try:
        return await job._finished(store, None if wait == math.inf else wait)
    except ResultTimeout as error:
        raise click.ClickException(f"{error}; the job continues, see `windlass job show {job.id}`") from error


def find_task(target: Target, name: str) -> Task[..., Any]:
    """The task of this name. Where --app was given, it must be one of the app's."""
    app = target.app
    if target.app_name is not None:
        app.discover(*app.settings.imports)
    if target.app_name is not None and name not in app.tasks:
        known = ", ".join(sorted(app.tasks))
        raise ConfigurationError(
            f"{target.app_name} has no task {name!r}{did_you_mean(name, app.tasks)}; it has {known}; without "
            "--app any name is accepted"
        )
    return app.named(name)


def call_arguments(words: Sequence[str], named: str | None) -> tuple[list[Any], dict[str, Any]]:
    """The arguments of a job: each ARG, and what --args says."""
    args = [_word(word) for word in words]
    if named is None:
        return args, {}
    try:
        given = json.loads(named, parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise click.BadParameter(
            f"""this is not JSON: {error}; write it in single quotes, like '{{"to": "a@b.c"}}' or '[1, 2]'""",
            param_hint="--args",
        ) from None
    if isinstance(given, list) and not args:
        return given, {}
    if not isinstance(given, dict):
        raise click.BadParameter(
            "give an object of named arguments, or an array and no ARG", param_hint="--args"
        )
    more = given.pop("*", [])
    if not isinstance(more, list):
        raise click.BadParameter('"*" holds the positional arguments, as an array', param_hint="--args")
    return [*args, *more], given


def _word(word: str) -> Any:
    try:
        return json.loads(word, parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return word


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _end_as_json(ended: JobRecord | None) -> dict[str, Any]:
    if ended is None:
        return {}
    last = FailureShape.of(ended.errors[-1]) if ended.errors else None
    return {"state": str(ended.state), "result": parsed(ended.result), "error": last}


def _fail(ended: JobRecord) -> NoReturn:
    last = ended.errors[-1] if ended.errors else None
    why = f": {last.type}: {last.message}" if last else f": {ended.reason}" if ended.reason else ""
    message = one_line(f"job {ended.id} ended {ended.state}{why}")
    raise click.ClickException(f"{message}; see `windlass job show {ended.id} --traceback`")
