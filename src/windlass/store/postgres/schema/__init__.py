"""How the SQL files become a schema: rendering for a schema name, migrating, refusing what is too new.

`migrations/NNNN_*.sql` hold tables and only ever add. `sql/*.sql`, one file per module, hold functions and
views, which are replaced as a whole whenever their text has changed, and the statements that the store sends;
see `sources.py`. In the files the schema is called windlass; rendering puts the real name.
"""

from __future__ import annotations

import functools
import hashlib
import re
from typing import Any, Final

from windlass.errors import ConfigurationError, SchemaMissing, SchemaTooNew
from windlass.store.origin import check_origin, origin_of
from windlass.store.postgres.schema.plans import with_settings
from windlass.store.postgres.schema.setting_rules import with_rules
from windlass.store.postgres.schema.sources import definitions, migrations, statements
from windlass.store.records import Migration
from windlass.store.settings import StoreSettings

_NAME = re.compile(r"[a-z_][a-z0-9_]{0,47}")
_RESERVED = re.compile(
    r"all|analyse|analyze|and|any|array|as|asc|asymmetric|authorization|binary|both|case|cast|check|"
    r"collate|collation|column|concurrently|constraint|create|cross|current_catalog|current_date|"
    r"current_role|current_schema|current_time|current_timestamp|current_user|default|deferrable|desc|"
    r"distinct|do|else|end|except|false|fetch|for|foreign|freeze|from|full|grant|group|having|ilike|in|"
    r"initially|inner|intersect|into|is|isnull|join|lateral|leading|left|like|limit|localtime|"
    r"localtimestamp|natural|not|notnull|null|offset|on|only|or|order|outer|overlaps|placing|primary|"
    r"references|returning|right|select|session_user|similar|some|symmetric|system_user|table|"
    r"tablesample|then|to|trailing|true|union|unique|user|using|variadic|verbose|when|where|window|"
    r"with"
)
"""The words that PostgreSQL takes for a name only in quotes."""


OWNERS: Final = ["allow", "stamp"]
"""The functions that are for the schema's owner alone."""

_HIDDEN = (
    "SELECT c.relname FROM pg_class c WHERE c.relnamespace = to_regnamespace($1) AND c.relrowsecurity "
    "AND row_security_active(c.oid) ORDER BY 1 LIMIT 1"
)


def check_schema_name(schema: str) -> str:
    """A schema name that needs no quoting anywhere; anything else is refused."""
    if not _NAME.fullmatch(schema) or schema.startswith("pg_") or _RESERVED.fullmatch(schema):
        raise ConfigurationError(
            f"schema name {schema!r} is not allowed; use up to 48 characters of a-z, 0-9 and _, "
            "not pg_… and no reserved word"
        )
    return schema


def render(text: str, schema: str) -> str:
    """SQL as written, for the schema of this name: `windlass.x`, `'windlass'` and `SCHEMA … windlass`."""
    text = re.sub(r"\bwindlass\.(?=[a-z_%])", f"{schema}.", text)
    text = text.replace("'windlass'", f"'{schema}'")
    return re.sub(r"(SCHEMA (?:IF NOT EXISTS )?)windlass\b", rf"\g<1>{schema}", text)


@functools.cache
def functions() -> str:
    """Every function and procedure with the settings of its header, then the views, which need them. In
    windlass.allow the headers tell which functions a role may call, and in windlass.check_settings stand the
    rules of what users set."""
    text = "\n\n".join(each.text if each.kind == "VIEW" else with_settings(each) for each in definitions())
    for role in ("owner", "producer", "reader"):
        names = sorted(definition.name for definition in definitions() if role in definition.may_call)
        if role == "owner" and names != OWNERS:  # a worker may call whatever is not the owner's
            raise AssertionError(f"the headers name {names} as the owner's functions, which are {OWNERS}")
        text = text.replace(f"<{role}>", ",".join(names))
    return with_rules(text)


@functools.cache
def query(name: str, schema: str) -> str:
    """The statement of this name, for this schema."""
    return render(statements()[name], schema)


@functools.cache
def call(function: str, arguments: int, schema: str) -> str:
    """The statement that calls a function of the schema with so many arguments."""
    places = ", ".join(f"${i}" for i in range(1, arguments + 1))
    # Both names are ours: the schema's was checked, the function's stands in this package.
    return f"SELECT * FROM {schema}.{function}({places})"  # noqa: S608


def read_ahead() -> None:
    """Read the files that every process reads which opens a store."""
    latest()
    statements()


def latest() -> int:
    """The version that this code works with."""
    return migrations()[-1][0]


@functools.cache
def origin() -> str:
    """The origin of every schema that this code has made or can migrate."""
    return origin_of(migrations()[0][1])


def fingerprint(schema: str) -> str:
    """Says whether the functions in a database are those of this code."""
    return hashlib.sha256(render(functions(), schema).encode()).hexdigest()[:16]


def ddl(schema: str = "windlass") -> str:
    """The whole schema as SQL that psql runs in one transaction."""
    check_schema_name(schema)
    steps = [text for _, text in migrations()]
    stamp = f"SELECT windlass.stamp({latest()}, '{fingerprint(schema)}', '{origin()}');"
    return f"BEGIN;\n{render(chr(10).join([*steps, _load_functions(), stamp]), schema)}\nCOMMIT;\n"


def _load_functions() -> str:
    # Nobody but the owner may call anything until windlass.allow says so.
    closed = (
        "REVOKE ALL ON ALL FUNCTIONS IN SCHEMA windlass FROM PUBLIC;\n"
        "REVOKE ALL ON ALL PROCEDURES IN SCHEMA windlass FROM PUBLIC;\n"
        "SELECT windlass.allow(a.role, a.kind) FROM windlass.allowed a\n"
        "  JOIN pg_roles r ON r.rolname = a.role;\n"
    )
    return f"SET LOCAL check_function_bodies = off;\n{functions()}\n{closed}"


async def version_of(connection: Any, schema: str) -> tuple[int, str]:
    """(version, fingerprint of the functions) of the schema in the database; (0, "") where there is none.
    Raises SchemaUnreleased and SchemaTooNew."""
    if not await connection.fetchval("SELECT to_regproc($1) IS NOT NULL", f"{schema}.schema_version"):
        return 0, ""
    row = await connection.fetchrow(call("schema_version", 0, schema))
    version: int = row["version"]
    what = f"schema {schema!r}, at version {version},"
    check_origin(what, row.get("origin"), origin(), "use another schema or database")
    if version > latest():
        raise SchemaTooNew(
            f"schema {schema!r} is at version {version}, and this Windlass knows versions up to {latest()}; "
            "upgrade Windlass on this machine"
        )
    return version, row["functions"]


async def migrate(connection: Any, schema: str, settings: StoreSettings) -> Migration:
    """Bring the schema to this code's version, in one transaction and one process at a time."""
    # Whatever the database's default is: what is read after the lock must be younger than the lock.
    async with connection.transaction(isolation="read_committed"):
        # And however short of time sessions of this role are kept.
        await connection.execute(
            "SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = 0; "
            "SET LOCAL idle_in_transaction_session_timeout = 0"
        )
        lock = "SELECT pg_advisory_xact_lock(hashtextextended($1, 0))"
        await connection.execute(lock, f"windlass migrate {schema}")
        before, stamped = await version_of(connection, schema)
        for version, text in migrations():
            if version > before:
                await connection.execute(render(text, schema))
        if before < latest() or stamped != fingerprint(schema):
            await connection.execute(render(_load_functions(), schema))
        await connection.execute(
            call("stamp", 7, schema),
            latest(),
            fingerprint(schema),
            origin(),
            settings.idempotency_retention,
            settings.retention,
            settings.size_limit,
            settings.park_after,
        )
    return Migration(before, latest())


async def check(connection: Any, schema: str) -> None:
    """Refuse to work with a schema that is missing, older or newer than this code."""
    version, _ = await version_of(connection, schema)
    if version < latest():
        what = (
            f"is at schema version {version}, and {latest()} is needed"
            if version
            else "holds no Windlass schema"
        )
        raise SchemaMissing(f"the database {what} (schema {schema!r}); run `windlass migrate`")
    # With it jobs would silently not be there.
    if hidden := await connection.fetchval(_HIDDEN, schema):
        raise ConfigurationError(
            f"row security hides rows of {schema}.{hidden} from this role, and Windlass needs them: ALTER "
            f"TABLE {schema}.{hidden} DISABLE ROW LEVEL SECURITY, or give the role BYPASSRLS"
        )
