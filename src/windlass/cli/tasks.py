"""The verbs about tasks: tasks lists them and what the store says of them, task set changes that without a
change of code [P6], reconcile enqueues now what a task says is missing [K5]."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Sequence
from typing import Any, Final

import click
import msgspec

from windlass.cli.enqueue import find_task
from windlass.cli.options import database_option, json_option, schema_option, with_json
from windlass.cli.output import print_json, print_listing
from windlass.cli.settings import changes_of, setting_options, shown
from windlass.cli.target import Target
from windlass.cli.verbs import command, table
from windlass.errors import ConfigurationError, StoreError
from windlass.operations import tasks as operations
from windlass.operations.tasks import TaskView
from windlass.presentation.text import Shape
from windlass.store.fields import TaskRecord, fields_of
from windlass.store.protocol import Store
from windlass.tasks.gaps import Reconciled

_DEFAULT: Final = "default"
_FIELDS: Final = fields_of(TaskRecord)
_COLUMNS: Final = ("task", ">ready", *(f"?>{field.label.lower()}" for field in _FIELDS.values()))
_COUNTS: Final = ("task", ">found", ">enqueued", ">under way", ">parked")


@click.group()
def task() -> None:
    """Change settings of single tasks, for the whole cluster and without a change of code."""


@task.command("set")
@click.argument("name")
@setting_options(TaskRecord, _DEFAULT)
@with_json
def set_(target: Target, name: str, as_json: bool, **given: Any) -> None:
    """Change settings of a task and print them all; `default` goes back to what its code says.

    With --app, a name that the app does not know is refused.
    """
    if target.app_name is not None:
        find_task(target, name)
    view, _ = target.operate(operations.set_task, name=name, changes=changes_of(TaskRecord, given))
    if as_json:
        print_json(view)
        return
    for setting, value in zip(_FIELDS, _settings(view), strict=True):
        click.echo(f"{setting.replace('_', '-'):15}  {value}")


def _settings(task: TaskView) -> list[str]:
    """The settings of a task as they are printed."""
    return [shown(getattr(task, name), field.unit, _DEFAULT) for name, field in _FIELDS.items()]


def _task_row(task: TaskView) -> Sequence[object]:
    return task.name, f"{'~' if task.estimate else ''}{task.ready:,}", *_settings(task)


tasks: Final = command(operations.list_tasks, table(_COLUMNS, _task_row))


@click.command()
@click.argument("app", metavar="MODULE:ATTR")
@click.argument("task", required=False)
@database_option
@schema_option
@json_option
def reconcile(app: str, task: str | None, database: str | None, schema: str | None, as_json: bool) -> None:
    """Ask tasks of an app what is missing (their `find_gaps`) and enqueue it now; all of them, or TASK.

    Workers do this by themselves when they start and every few minutes. Under way is what has an unfinished
    job already; parked is what died again and again and waits a while.
    """
    target = Target(database=database, schema=schema, app=app)
    target.app.discover(*target.settings.imports)
    names = (
        [task] if task is not None else sorted(name for name, each in target.app.tasks.items() if each.gaps)
    )
    if task is not None:
        find_task(target, task)
    if not names or target.app.tasks[names[0]].gaps is None:
        who = f"no task of {app} has a" if task is None else f"task {task} has no"
        raise ConfigurationError(f"{who} find_gaps function: write one, decorated with @<task>.find_gaps")

    failed: list[str] = []

    async def work(store: Store) -> dict[str, Reconciled]:
        done: dict[str, Reconciled] = {}
        async with _hooked(target):
            for name in names:
                try:
                    done[name] = await target.app.tasks[name].areconcile()
                except StoreError:
                    raise
                except Exception as error:  # noqa: BLE001 - of the user's own function; the others go on
                    failed.append(f"find_gaps of {name} failed: {type(error).__name__}: {error}")
        return done

    done = target.run(work, create=True)
    print_listing(as_json, "reconciled", done.items(), _as_json, _COUNTS, _row)
    for line in failed:
        click.echo(line, err=True)
    if failed:
        raise click.exceptions.Exit(1)


@contextlib.asynccontextmanager
async def _hooked(target: Target) -> AsyncIterator[None]:
    """The app as a worker has it: what its start hooks open, `find_gaps` may need."""
    await target.app.hooks.start()
    try:
        yield
    finally:
        await target.app.hooks.stop()


def _as_json(done: tuple[str, Reconciled]) -> Shape:
    return {"task": done[0], **msgspec.structs.asdict(done[1])}


def _row(done: tuple[str, Reconciled]) -> Sequence[object]:
    return done[0], *(f"{count:,}" for count in msgspec.structs.astuple(done[1]))
