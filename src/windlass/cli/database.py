"""The verbs about the database as a whole: migrate, sql."""

from __future__ import annotations

import asyncio
import json
from urllib.parse import unquote, urlsplit

import click

from windlass.errors import WindlassError
from windlass.settings import Settings, load
from windlass.store.factory import POSTGRES, describe, kind_of, make_store
from windlass.store.records import Migration

database_option = click.option(
    "--database",
    metavar="URL",
    help="Where jobs live: postgresql://…, sqlite:///path. [WINDLASS_DATABASE_URL]",
)
schema_option = click.option(
    "--schema", metavar="NAME", help="The PostgreSQL schema. [WINDLASS_SCHEMA, windlass]"
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


@click.command()
@database_option
@schema_option
@json_option
def migrate(database: str | None, schema: str | None, as_json: bool) -> None:
    """Bring the database's schema to this version. Safe to run from many places at once."""
    settings = load(flags={"database_url": database, "schema": schema})
    place = describe(settings.database_url)
    try:
        done = asyncio.run(_migrate(settings))
    except WindlassError as error:
        message = _without_password(str(error), settings.database_url)
        raise click.ClickException(f"{place}: {message}") from error
    if as_json:
        click.echo(json.dumps({"database": place, "before": done.before, "after": done.after}))
        return
    where = f"{place}, schema {settings.schema}" if kind_of(settings.database_url) == POSTGRES else place
    step = (
        f"version {done.before} → {done.after}"
        if done.before != done.after
        else f"version {done.after}, up to date"
    )
    click.echo(f"{where}: {step}")


@click.command()
@schema_option
def sql(schema: str | None) -> None:
    """Print the whole PostgreSQL schema as SQL, for those who migrate by their own means."""
    from windlass.store.postgres.schema import ddl

    click.echo(ddl(load(flags={"schema": schema}).schema))


async def _migrate(settings: Settings) -> Migration:
    store = make_store(settings.database_url, schema=settings.schema, settings=settings.for_store())
    try:
        return await store.migrate()
    finally:
        await store.close()


def _without_password(message: str, url: str) -> str:
    """A driver may quote what it was given; a password must not get out that way."""
    password = urlsplit(url).password
    for secret in filter(None, (url, password, unquote(password or ""))):
        message = message.replace(secret, "***")
    return message
