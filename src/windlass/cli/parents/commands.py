"""The verbs about jobs that are made of others. parents lists those with parts; parent shows, watches, sets,
redrives and cancels single ones [P8] [P9] [P10]; group shows, closes and cancels groups [W4]."""

from __future__ import annotations

import contextlib
import sys
from functools import partial
from typing import Any, Final

import click

from windlass.cli.options import JobId, OrWord, with_json
from windlass.cli.output import console, print_answer, print_json
from windlass.cli.output import show as print_out
from windlass.cli.parents.page import COLUMNS, PARTS, draw, part_row, row
from windlass.cli.parents.watch import watch_parent
from windlass.cli.target import Target
from windlass.cli.verbs import command, table
from windlass.core.states import State
from windlass.operations import groups
from windlass.operations import parents as operations

_id: Final = click.argument("id", metavar="ID", type=JobId())
parents: Final = command(operations.list_parents, table(COLUMNS, row))


@click.group()
def parent() -> None:
    """Show, set, redrive and cancel jobs that were split into parts, by id."""


parent.add_command(command(operations.list_parts, table(PARTS, part_row)), "parts")
parent.add_command(command(operations.redrive_parent, ok=lambda answer: answer.redriven > 0))
parent.add_command(command(operations.cancel_parent, ok=lambda answer: answer.answer != "finished"))


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
    found, _ = target.operate(operations.show_parent, id=id)
    if as_json:
        print_json(found)
    else:
        print_out(draw(found, console().width))


def _watch(target: Target, id: int, as_json: bool) -> None:
    if not (as_json or sys.stdout.isatty()):
        raise click.ClickException("stdout is not a terminal; use --json, or leave --watch out")
    ended = None
    with contextlib.suppress(KeyboardInterrupt):
        ended = target.with_ops(partial(watch_parent, id, as_json))
    if ended is None or ended.state != State.SUCCEEDED:
        raise SystemExit(1)


@parent.command("set")
@_id
@click.option(
    "--parallel",
    type=OrWord(click.IntRange(1, operations.MAX_PARALLEL), "any"),
    metavar="N|any",
    required=True,
    help="How many parts may run at a time.",
)
@with_json
def set_(target: Target, id: int, parallel: Any, as_json: bool) -> None:
    """Change how many parts of a parent may run at a time, even while it runs."""
    most = None if parallel is OrWord.UNSET else parallel
    print_answer(as_json, *target.operate(operations.set_parent, id=id, parallel=most))


@click.group()
def group() -> None:
    """Show, close and cancel groups of jobs, by the id of the job that ends them."""


group.add_command(command(groups.show_group))
group.add_command(command(groups.close_group))
group.add_command(command(groups.cancel_group))
