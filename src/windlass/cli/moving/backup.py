"""The verb backup: a copy of a SQLite store in use."""

from __future__ import annotations

import os

import click

from windlass.cli.options import with_json
from windlass.cli.output import print_answer, progress
from windlass.cli.target import Target
from windlass.core.counts import plural
from windlass.errors import ConfigurationError, StoreError
from windlass.store.factory import POSTGRES, kind_of, sqlite_path


@click.command()
@click.argument("file", type=click.Path(dir_okay=False))
@click.option("--force", is_flag=True, help="Replace the file if it is there.")
@with_json
def backup(target: Target, file: str, force: bool, as_json: bool) -> None:
    """Copy a SQLite store that is in use to FILE, which opens as a store of its own."""
    url = target.settings.database_url
    if kind_of(url) == POSTGRES:
        raise click.ClickException(
            f"{target.place}: this is for SQLite files; back PostgreSQL up with pg_dump or a base backup, as "
            "docs/guides/copies.md says"
        )
    if missing := target.missing():
        raise click.ClickException(missing)
    from windlass.store.moving.backup import back_up

    with progress("pages", quiet=as_json) as tell:
        try:
            made = back_up(sqlite_path(url), file, force=force, progress=tell)
        except (StoreError, ConfigurationError) as error:
            raise click.ClickException(target.error_text(error)) from error
    again = (
        f"; {plural(made.offered_again, 'running job')} will run again there" if made.offered_again else ""
    )
    print_answer(
        as_json,
        made,
        f"{made.file}: {made.bytes / 1024**2:,.1f} MiB, passes integrity_check{again}\n"
        f"To use it, stop the workers of the original, then start them with "
        f"WINDLASS_DATABASE_URL=sqlite:///{os.path.abspath(made.file)}",
    )
