"""The verbs about jobs that are made of others. parents lists those with parts; parent shows, watches, steers
single ones [P8] [P9] [P10]; group shows, closes and cancels groups [W4]."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Sequence
from typing import Any

import click

from windlass.cli.options import JobId, OrWord, limit_option, with_json
from windlass.cli.output import console, print_answer, print_json, print_listing
from windlass.cli.output import show as print_out
from windlass.cli.parents.page import COLUMNS, draw, every_part, find_parent, look_at, row
from windlass.cli.parents.watch import watch_parent
from windlass.cli.target import Target
from windlass.cli.verbs import command
from windlass.core.counts import plural
from windlass.core.states import FINISHED, State
from windlass.operations import groups
from windlass.presentation import audit
from windlass.presentation.parents import ParentShape, PartShape
from windlass.presentation.retries import RetryingShape, retrying_of
from windlass.presentation.text import parts_at_a_time
from windlass.store.protocol import Store
from windlass.store.records import CancelAnswer, ParentRecord

_id = click.argument("id", metavar="ID", type=JobId())


@click.command()
@click.option("--active", is_flag=True, help="Only unfinished ones.")
@limit_option(50)
@with_json
def parents(target: Target, active: bool, limit: int, as_json: bool) -> None:
    """List jobs that were split into parts, newest first, with their progress."""

    async def work(store: Store) -> tuple[list[ParentRecord], dict[int, RetryingShape]]:
        found = await store.parents(active=active, limit=limit)
        return found, await retrying_of(store, found)

    found, retrying = target.run(work)
    now = time.time()

    def shape(parent: ParentRecord) -> ParentShape:
        return ParentShape.of(parent, (now, parent), retrying=retrying.get(parent.id))

    def line(parent: ParentRecord) -> Sequence[object]:
        return row(parent, now, retrying.get(parent.id))

    print_listing(as_json, "parents", found, shape, COLUMNS, line)


async def _shape(store: Store, parent: ParentRecord) -> ParentShape:
    retrying = await retrying_of(store, [parent])
    return ParentShape.of(parent, (time.time(), parent), retrying=retrying.get(parent.id))


@click.group()
def parent() -> None:
    """Show, set, redrive and cancel jobs that were split into parts, by id."""


@parent.command()
@_id
@click.option("--watch", is_flag=True, help="Refresh every second until it ends; exit code 1 if it failed.")
@with_json
def show(target: Target, id: int, watch: bool, as_json: bool) -> None:
    """Show everything about one parent: its progress, the state of every part, which parts need attention.

    With --watch, q or Ctrl-C ends the display; the job goes on.
    """
    if watch:
        _watch(target, id, as_json)
        return

    async def work(store: Store) -> None:
        found = await find_parent(store, id)
        if as_json:
            parts = await every_part(store, id)
            shape = await _shape(store, found)
            print_json({"parent": shape, "parts": [PartShape.of(part) for part in parts]})
        else:
            print_out(draw(await look_at(store, found), [(time.time(), found)], console().width))

    target.run(work)


def _watch(target: Target, id: int, as_json: bool) -> None:
    if not (as_json or sys.stdout.isatty()):
        raise click.ClickException("stdout is not a terminal; use --json, or leave --watch out")
    ended = None
    with contextlib.suppress(KeyboardInterrupt):
        ended = target.run(lambda store: watch_parent(store, id, as_json))
    if ended is None or ended.parent.state is not State.SUCCEEDED:
        raise SystemExit(1)


@parent.command("set")
@_id
@click.option(
    "--parallel",
    type=OrWord(click.IntRange(min=1), "any"),
    metavar="N|any",
    required=True,
    help="How many parts may run at a time.",
)
@with_json
def set_(target: Target, id: int, parallel: Any, as_json: bool) -> None:
    """Change how many parts of a parent may run at a time, even while it runs."""
    most = None if parallel is OrWord.UNSET else parallel

    async def work(store: Store) -> tuple[ParentRecord, ParentShape]:
        found = await store.set_parent(id, parallel=most) or await find_parent(store, id)
        return found, await _shape(store, found)

    found, shape = target.act(work, lambda done: [audit.set_parallel(id, done[0].parallel)])
    if found.state in FINISHED:
        counts = "it has ended, so this counts when it is redriven"
    else:
        counts = f"{found.out:,} {'is' if found.out == 1 else 'are'} out now; see `windlass parent show {id}`"
    said = f"{id} runs {parts_at_a_time(found.parallel)}; {counts}"
    print_answer(as_json, {"parent": shape}, said)


@parent.command()
@_id
@with_json
def redrive(target: Target, id: int, as_json: bool) -> None:
    """Run the dead and cancelled parts of a parent again, each from its last checkpoint."""

    async def work(store: Store) -> tuple[int, bool, ParentShape]:
        before = await find_parent(store, id)
        again = await store.redrive(id)
        only_final = before.dead + before.cancelled == 0 and before.state is State.DEAD
        return again, only_final, await _shape(store, await find_parent(store, id))

    again, only_final, shape = target.act(work, lambda done: [audit.redriven(id, done[0])])
    said = f"{id} unchanged: neither its finalizer nor any part failed; see `windlass parent show {id}`"
    if again:
        what = "its finalizer" if only_final else f"{plural(again, 'part')} (a finalizer counts as one)"
        said = f"{id} runs {what} again; {_follow(id)}"
    print_answer(as_json, {"parent": shape, "redriven": again}, said, ok=again > 0)


@parent.command()
@_id
@with_json
def cancel(target: Target, id: int, as_json: bool) -> None:
    """Cancel a parent: no more of its parts are offered, and those that are out are cancelled."""

    async def work(store: Store) -> tuple[CancelAnswer, ParentRecord, ParentShape]:
        await find_parent(store, id)
        answer = (await store.cancel([id]))[id]
        found = await find_parent(store, id)
        return answer, found, await _shape(store, found)

    answer, found, shape = target.act(work, lambda done: audit.steered("cancel", {id: done[0]}))
    if answer == "finished":
        said = f"{id} has already ended, {found.state}; nothing was changed"
    elif found.state in FINISHED:
        said = f"{id} {found.state}; `windlass parent redrive {id}` would go on with it"
    else:
        said = f"{id} is being cancelled and waits for {plural(found.out, 'part')} to stop; {_follow(id)}"
    print_answer(as_json, {"parent": shape, "answer": answer}, said, ok=answer != "finished")


def _follow(id: int) -> str:
    return f"follow it with `windlass parent show {id} --watch`"


@click.group()
def group() -> None:
    """Show, close and cancel groups of jobs, by the id of the job that ends them."""


group.add_command(command(groups.show_group))
group.add_command(command(groups.close_group))
group.add_command(command(groups.cancel_group))
