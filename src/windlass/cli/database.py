"""The verbs about the database as a whole: migrate, sql."""

from __future__ import annotations

import asyncio

import click

from windlass.cli.options import schema_option, with_json
from windlass.cli.output import print_answer
from windlass.cli.target import Target
from windlass.errors import WindlassError
from windlass.settings import load
from windlass.store.factory import POSTGRES, kind_of


@click.command()
@with_json
def migrate(target: Target, as_json: bool) -> None:
    """Bring the database's schema up to date. Safe to run from many processes at once."""
    settings, place = target.settings, target.place
    try:
        done = asyncio.run(target.app.amigrate())
    except WindlassError as error:
        raise click.ClickException(f"{place}: {target.error_text(error)}") from error
    where = f"{place}, schema {settings.schema}" if kind_of(settings.database_url) == POSTGRES else place
    step = (
        f"version {done.before} → {done.after}"
        if done.before != done.after
        else f"version {done.after}, up to date"
    )
    print_answer(as_json, {"database": place, "before": done.before, "after": done.after}, f"{where}: {step}")


@click.command()
@schema_option
def sql(schema: str | None) -> None:
    """Print the whole PostgreSQL schema as SQL, for migration by other tools."""
    from windlass.store.postgres.schema import ddl

    click.echo(ddl(load(flags={"schema": schema}).schema))
