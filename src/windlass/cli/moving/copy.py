"""The verb copy: what waits in a SQLite store goes to PostgreSQL."""

from __future__ import annotations

import asyncio
import contextlib
import csv
import os
from collections.abc import Callable
from typing import Any

import click

from windlass.cli.options import DatabaseUrl, with_json
from windlass.cli.output import print_answer, progress
from windlass.cli.target import Target, without_password
from windlass.core.counts import plural
from windlass.errors import ConfigurationError, StoreError
from windlass.presentation.text import one_line
from windlass.store.factory import SQLITE, describe, kind_of, make_store, sqlite_path


@click.command()
@click.argument("source", type=DatabaseUrl(), metavar="SOURCE")
@click.argument("to", type=DatabaseUrl(), metavar="[TARGET]", required=False)
@click.option("--dead", is_flag=True, help="Copy dead jobs, too.")
@click.option("--force", is_flag=True, help="Take the jobs of live workers away; those run again.")
@click.option("--dry-run", is_flag=True, help="Only count what would be copied.")
@click.option(
    "--map",
    "map_file",
    type=click.Path(dir_okay=False),
    help="Write a CSV file of old ids, new ids and what became of each job.",
)
@click.option("--reopen", is_flag=True, help="Let SOURCE take jobs and workers again after a copy.")
@with_json
def copy(  # noqa: PLR0913 - its options
    target: Target,
    source: str,
    to: str | None,
    dead: bool,
    force: bool,
    dry_run: bool,
    map_file: str | None,
    reopen: bool,
    as_json: bool,
) -> None:
    """Copy what waits in SOURCE (sqlite:///jobs.db) to TARGET (postgresql://…), with settings and schedules.
    Without TARGET it goes to the database that --database, --app or the environment name.

    Stop all workers and producers of SOURCE first. It takes no more jobs from then on. Repeat the command
    after an interruption: nothing is added twice."""
    if missing := Target(database=source, schema=None, app=None).missing():
        raise click.ClickException(missing)
    url, schema = to or target.settings.database_url, target.settings.schema
    try:
        if reopen:
            asyncio.run(_reopen(source))
            print_answer(as_json, {"reopened": describe(source)}, f"{describe(source)} takes jobs again")
            return
        if dry_run:
            counts = asyncio.run(_survey(source, url, schema))
            if not dead:
                counts.pop("dead", None)
            text = ", ".join(f"{state} {n:,}" for state, n in sorted(counts.items())) or "nothing"
            print_answer(as_json, counts, f"would copy: {text}")
            return
        with contextlib.ExitStack() as stack:
            mapped = _map_to(stack, map_file, source)
            done, left = asyncio.run(_copy(source, url, schema, mapped, as_json, dead=dead, force=force))
    except (StoreError, ConfigurationError) as error:
        text = without_password(without_password(one_line(str(error)), url), source)
        raise click.ClickException(text) from error
    lines = [
        f"{plural(done.jobs, 'job')} copied to {describe(url)}"
        f" ({plural(done.parents, 'parent')}, {done.dead:,} dead); {done.repeated:,} were there already",
        f"{plural(done.settings, 'setting or schedule', 'settings and schedules')} copied",
    ]
    if done.skipped:
        lines.append(f"{plural(done.skipped, 'job')} left out: jobs there hold their unique keys")
    if left:
        lines.append(f"{plural(left, 'dead job')} left in the file; repeat with --dead to copy them, too")
    if done.kept:
        lines.append(f"as they are there: {', '.join(done.kept)}")
    lines.append("Next: set WINDLASS_DATABASE_URL to the new store, and start workers and producers there")
    print_answer(as_json, done, "\n".join(lines))


def _map_to(stack: contextlib.ExitStack, path: str | None, source: str) -> Callable[[int, int, str], None]:
    if path is None:
        return lambda old, new, status: None
    if kind_of(source) == SQLITE and os.path.exists(path) and os.path.samefile(path, sqlite_path(source)):
        raise click.ClickException(f"{path} is the store itself: name another file for --map")
    try:
        rows = csv.writer(stack.enter_context(open(path, "w", newline="", encoding="ascii")))  # noqa: SIM115
    except OSError as error:
        raise click.ClickException(f"{path} cannot be written: {error.strerror}") from error
    rows.writerow(("old", "new", "status"))
    return lambda old, new, status: rows.writerow((old, new, status))


async def _survey(source: str, target: str, schema: str) -> dict[str, int]:
    async with _both(source, target, schema) as (here, _):
        found: dict[str, int] = await here.count_unfinished()
        return found


async def _copy(
    source: str, target: str, schema: str, mapped: Callable[[int, int, str], None], quiet: bool, **how: bool
) -> tuple[Any, int]:
    """Return what was done, and how many dead jobs were left behind."""
    from windlass.store.moving.copy import Copy

    async with _both(source, target, schema) as (here, there):
        counts = await here.count_unfinished()
        left = 0 if how["dead"] else counts.pop("dead", 0)
        total = sum(counts.values())
        with progress("jobs", quiet=quiet) as tell:
            moving = Copy(here, there, mapped=mapped, progress=lambda done: tell(done, total))
            return await moving.run(describe(target), **how), left


@contextlib.asynccontextmanager
async def _both(source: str, target: str, schema: str) -> Any:
    from windlass.store.moving.copy import require_kinds

    require_kinds(kind_of(source), kind_of(target))
    here: Any = make_store(source)
    there: Any = make_store(target, schema=schema)
    await there.open()
    try:
        await here.open()
        yield here, there
    finally:
        await here.close()
        await there.close()


async def _reopen(source: str) -> None:
    if kind_of(source) != SQLITE:
        raise ConfigurationError("only a SQLite file is shut by a copy, and reopened")
    store: Any = make_store(source)
    await store.open()
    try:
        await store.reopen()
    finally:
        await store.close()
