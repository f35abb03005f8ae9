"""The verbs about dead jobs: list them, give them another chance, or remove them, by id or by filter [O6]."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Literal, TypeVar

import click
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from windlass import bulk
from windlass.cli.jobs import cursor_option, limit_option, list_jobs, steer
from windlass.cli.options import JobId, filters, json_option, on_store
from windlass.cli.target import Target
from windlass.cli.text import console, print_json
from windlass.core.states import State
from windlass.store.protocol import Store
from windlass.store.records import JobFilter

F = TypeVar("F", bound=Callable[..., Any])
_SAID = {"retry": "retry", "delete": "remove"}
_FILTERS = ("queue", "task", "tag", "text")
_optional_ids = click.argument("ids", metavar="[ID]...", type=JobId(), nargs=-1)


@click.group()
def dead() -> None:
    """Jobs that failed for good: list, retry or purge them."""


@dead.command("list")
@filters(state=False)
@limit_option
@cursor_option
@on_store
@json_option
def list_(target: Target, limit: int, cursor: str | None, as_json: bool, **where: Any) -> None:
    """List dead jobs, newest first, with their last error."""
    list_jobs(target, bulk.job_filter(state=State.DEAD, **where), limit, cursor, as_json)


def _bulk_options(function: F) -> F:
    """What the two verbs that change many jobs at once share."""
    for option in (
        click.option("--dry-run", is_flag=True, help="Only count what would be done."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
        click.option("--all", "everything", is_flag=True, help="Every dead job of every queue."),
        click.option(
            "--limit", type=click.IntRange(min=1), metavar="N", help="The newest N of them at most."
        ),
        filters(state=False),
        _optional_ids,
    ):
        function = option(function)
    return function


@dead.command()
@_bulk_options
@on_store
@json_option
def retry(target: Target, **given: Any) -> None:
    """Offer dead jobs again, with their attempts reset: by ID, by filter, or --all."""
    _act(target, "retry", **given)


@dead.command()
@_bulk_options
@on_store
@json_option
def purge(target: Target, **given: Any) -> None:
    """Remove dead jobs for good: by ID, by filter, or --all."""
    _act(target, "delete", **given)


def _act(
    target: Target,
    verb: Literal["retry", "delete"],
    ids: tuple[int, ...],
    everything: bool,
    as_json: bool,
    **given: Any,
) -> None:
    filtered = any(given[name] for name in _FILTERS)
    if sum((bool(ids), filtered, everything)) != 1:
        raise click.UsageError("say which: ids, or filters (--queue, --task, --tag, --text), or --all")
    if ids:
        steer(target, lambda store: _only_dead(store, verb, ids, dry_run=given["dry_run"]), as_json)
        return
    where = bulk.job_filter(state=State.DEAD, **{name: given[name] for name in _FILTERS})
    _act_on_many(target, verb, where, as_json, **{name: given[name] for name in ("limit", "yes", "dry_run")})


async def _only_dead(
    store: Store, verb: Literal["retry", "delete"], ids: tuple[int, ...], *, dry_run: bool
) -> Mapping[int, str]:
    """Act on those of the jobs that are dead; the others are left as they are."""
    answers: dict[int, str] = {}
    for id in dict.fromkeys(ids):
        record = await store.job(id)
        if record is None:
            answers[id] = "not_found"
        else:
            answers[id] = "dead" if record.state is State.DEAD else f"not dead but {record.state}"
    chosen = [id for id, answer in answers.items() if answer == "dead"]
    if chosen and not dry_run:
        answers |= await (store.retry(chosen) if verb == "retry" else store.delete(chosen))
    return answers


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
    found = target.run(lambda store: bulk.count(store, where))
    if limit is not None and (found.more or found.jobs > limit) and limit <= bulk.CAP:
        found = bulk.Count(limit)
    if dry_run or not found.jobs:
        _tell(found, {}, as_json, f"{found} dead jobs to {_SAID[verb]}")
        return
    if not yes:
        click.confirm(f"{_SAID[verb]} {found} dead jobs?", abort=True, err=True)
    with _bar(_SAID[verb], None if found.more else found.jobs) as progress:
        answers = target.run(lambda store: bulk.apply(store, where, verb, limit=limit, progress=progress))
    told = ", ".join(f"{count:,} {answer.replace('_', ' ')}" for answer, count in answers.items())
    _tell(found, answers, as_json, told or "nothing was left to do")


def _tell(found: bulk.Count, answers: Mapping[str, int], as_json: bool, words: str) -> None:
    if as_json:
        print_json({"found": found.jobs, "more": found.more, "answers": dict(answers)})
    else:
        click.echo(words)


@contextlib.contextmanager
def _bar(words: str, total: int | None) -> Iterator[bulk.Progress]:
    """A progress bar on stderr, where that is a terminal."""
    shown = console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with Progress(*columns, console=shown, disable=not shown.is_terminal, transient=True) as progress:
        bar = progress.add_task(words, total=total)
        yield lambda done: progress.update(bar, completed=done)
