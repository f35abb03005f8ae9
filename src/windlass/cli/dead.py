"""The verbs about dead jobs: list them, count them by what they died of, give them another chance, or remove
them, by id or by filter [O6]."""

from __future__ import annotations

import contextlib
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from windlass.cli.jobs import cursor_option, list_jobs, show_answers
from windlass.cli.options import JobId, filters, limit_option, queue_filter, task_filter, with_json
from windlass.cli.output import console, print_answer, print_json, print_table
from windlass.cli.target import Target
from windlass.core.counts import plural
from windlass.core.states import State
from windlass.operations import walks
from windlass.operations.bulk import apply, count, in_words
from windlass.operations.jobs import act, list_causes, texts
from windlass.presentation.text import local_of
from windlass.store.records import JobFilter

F = TypeVar("F", bound=Callable[..., Any])
_SAID = {"retry": "retry", "delete": "remove"}
_FILTERS = ("queue", "task", "tag", "text", "error")
_COLUMNS = (">jobs", "task", "error", "?last", "message")
_optional_ids = click.argument("ids", metavar="[ID]...", type=JobId(), nargs=-1)


@click.group()
def dead() -> None:
    """List jobs that failed for good, group them by error, retry or purge them."""


@dead.command("list")
@filters(state=False)
@limit_option(50)
@cursor_option
@with_json
def list_(target: Target, limit: int, cursor: str | None, as_json: bool, **where: Any) -> None:
    """List dead jobs, newest first, with their last error."""
    list_jobs(target, walks.job_filter(state=State.DEAD, **where), limit, cursor, as_json)


@dead.command()
@queue_filter
@task_filter
@with_json
def causes(target: Target, queue: str | None, task: str | None, as_json: bool) -> None:
    """Count dead jobs by task and by the type of their last error, most frequent first."""
    where = walks.job_filter(queue=queue, task=task)
    found, _ = target.operate(list_causes, queue=where.queue, task=where.task)
    if as_json:
        print_json(found)
        return
    now = time.time()
    rows = [(g.jobs, g.task, g.error, local_of(g.last_at, now), g.message) for g in found.groups]
    print_table(_COLUMNS, rows)
    if found.more:
        click.echo(f"of the newest {plural(found.looked, 'dead job')}; there are more", err=True)


def _bulk_options(function: F) -> F:
    """Add the options that the two verbs which change many jobs share."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only count the jobs, change nothing."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation."),
        click.option("--all", "everything", is_flag=True, help="All dead jobs of all queues."),
        click.option("--limit", type=click.IntRange(min=1), metavar="N", help="At most the newest N."),
        filters(state=False),
        _optional_ids,
    ):
        function = option(function)
    return function


@dead.command()
@_bulk_options
@with_json
def retry(target: Target, **given: Any) -> None:
    """Make dead jobs ready again, with their attempts reset: by ID, by filter, or --all."""
    _act(target, "retry", **given)


@dead.command()
@_bulk_options
@with_json
def purge(target: Target, **given: Any) -> None:
    """Delete dead jobs: by ID, by filter, or --all."""
    _act(target, "delete", **given)


def _act(
    target: Target,
    verb: Literal["retry", "delete"],
    ids: tuple[int, ...],
    everything: bool,
    as_json: bool,
    **given: Any,
) -> None:
    filtered = any(given[name] for name in _FILTERS) or given["error"] is not None  # "" is none at all
    if sum((bool(ids), filtered, everything)) != 1:
        raise click.UsageError(
            "give ids, filters (--queue, --task, --tag, --text, --error) or --all, and only one of these"
        )
    if ids:
        answered = target.with_ops(lambda ops: act(ops, verb, ids, State.DEAD, dry_run=given["dry_run"]))
        show_answers(texts(answered), as_json)
        return
    where = walks.job_filter(state=State.DEAD, **{name: given.pop(name) for name in _FILTERS})
    _act_on_many(target, verb, where, as_json, **given)


def _act_on_many(
    target: Target,
    verb: Literal["retry", "delete"],
    where: JobFilter,
    as_json: bool,
    *,
    limit: int | None,
    yes: bool,
    dry_run: bool,
) -> None:
    found = target.with_ops(lambda ops: count(ops, where, within=None))
    if limit is not None and (found.more or found.jobs > limit) and limit <= walks.CAP:
        found = walks.Count(limit)
    if dry_run or not found.jobs:
        _show(found, {}, as_json, f"{_jobs(found)} to {_SAID[verb]}")
        return
    if not yes:
        click.confirm(f"{_SAID[verb]} {_jobs(found)}?", abort=True, err=True)
    answers: Counter[str] = Counter()
    with _bar(_SAID[verb], None if found.more else found.jobs) as progress:
        target.with_ops(lambda ops: apply(ops, verb, where, answers, progress, limit))
    _show(found, answers, as_json, in_words(answers) or "nothing was left to do")


def _jobs(found: walks.Count) -> str:
    return f"{found} dead jobs" if found.more else plural(found.jobs, "dead job")


def _show(found: walks.Count, answers: Mapping[str, int], as_json: bool, words: str) -> None:
    shape = {"found": found.jobs, "more": found.more, "answers": dict(answers)}
    print_answer(as_json, shape, words)


@contextlib.contextmanager
def _bar(words: str, total: int | None) -> Iterator[walks.Progress]:
    """A progress bar on stderr, where that is a terminal."""
    shown = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, disable=not shown.is_terminal, transient=True) as progress:
        bar = progress.add_task(words, total=total)
        yield lambda done: progress.update(bar, completed=done)
