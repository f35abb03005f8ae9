"""The verb that looks for trouble: doctor. What the store finds comes from the store; this adds what stands
around it: versions, drivers, settings, and whether the database can be opened at all. What keeps jobs from
flowing is in `windlass.presentation.findings`."""

from __future__ import annotations

import importlib.metadata
import platform
import sys
from collections.abc import Iterator, Sequence
from typing import Final

import click
from rich.text import Text

from windlass import __version__
from windlass.cli.options import with_json
from windlass.cli.output import make_sheet, print_json, show
from windlass.cli.target import Target
from windlass.errors import (
    ConfigurationError,
    SchemaMissing,
    SchemaTooNew,
    SchemaUnreleased,
    StoreBusy,
    StoreForbidden,
    StoreFull,
    WindlassError,
)
from windlass.presentation.findings import examine
from windlass.presentation.text import one_line
from windlass.settings import SECRET, Settings
from windlass.store.factory import POSTGRES, describe, kind_of
from windlass.store.protocol import Store
from windlass.store.records import Finding

_MARKS = {"ok": ("ok", "green"), "warning": ("warning", "yellow"), "error": ("error", "bold red")}

_ADVICE: Final[dict[type[WindlassError], str]] = {
    SchemaMissing: "run `windlass migrate`",
    SchemaTooNew: "upgrade Windlass here to the version that migrated the database",
    SchemaUnreleased: "use another database, schema or file",
    StoreBusy: "end what keeps it busy: the process that it names, or a long transaction",
    StoreFull: "free some space there, or raise the limit of the file",
    StoreForbidden: "connect as a role of kind reader or worker",
    ConfigurationError: "correct the setting it names",
}
_UNREACHED: Final = (
    "see that the server runs and is reachable from here, and that user, password and database exist"
)


@click.command()
@with_json
def doctor(target: Target, as_json: bool) -> None:
    """Look for problems and say how to fix them; exit code 1 if something is wrong."""
    found = [_versions(), *_examine(target)]
    wrong = any(finding.level == "error" for finding in found)
    if as_json:
        print_json({"ok": not wrong, "findings": found})
    else:
        _print(found)
    if wrong:
        raise SystemExit(1)


def _examine(target: Target) -> Iterator[Finding]:
    """Yield what can be found out; the first thing that makes the rest impossible ends it."""
    try:
        settings = target.settings
        place = describe(settings.database_url)
    except ConfigurationError as error:
        advice = "correct it in the flag, the environment, pyproject.toml or the code that it names"
        yield Finding(name="settings", level="error", text=one_line(str(error)), advice=advice)
        return
    yield Finding(name="settings", text=_in_force(settings))
    yield from _drivers(settings)
    if missing := target.missing():
        message, _, advice = missing.partition("; ")
        yield Finding(name="database", level="warning", text=message, advice=advice)
        return
    try:
        found = target.ask(_look)
    except WindlassError as error:
        yield Finding(
            name="database", level="error", text=f"{place}: {target.error_text(error)}", advice=_advice(error)
        )
        return
    yield Finding(name="database", text=f"{place} can be opened")
    yield from found


async def _look(store: Store) -> list[Finding]:
    found = await store.diagnose()
    try:
        return [*found, *await examine(store)]
    except StoreForbidden as error:
        message = f"this role may not see it: {str(error).partition('. ')[0]}"
        advice = "Run the doctor as a role of kind reader or worker (windlass.allow)."
        return [*found, Finding(name="flow", level="warning", text=message, advice=advice)]


def _versions() -> Finding:
    supported = sys.version_info >= (3, 11)
    message = f"Windlass {__version__} on Python {platform.python_version()}, {platform.system()}"
    if supported:
        return Finding(name="versions", text=message)
    return Finding(name="versions", level="error", text=message, advice="use Python 3.11 or newer")


def _in_force(settings: Settings) -> str:
    """Every setting that is not the default, and the database without its secrets."""
    defaults = Settings()
    changed = [
        f"{name}={getattr(settings, name)!r}"
        for name in settings.__struct_fields__
        if name not in SECRET and getattr(settings, name) != getattr(defaults, name)
    ]
    return ", ".join([f"database {describe(settings.database_url)}", *changed])


def _drivers(settings: Settings) -> Iterator[Finding]:
    asyncpg, uvloop, apsw = (_version(name) for name in ("asyncpg", "uvloop", "apsw"))
    wants = kind_of(settings.database_url) == POSTGRES
    yield Finding(
        name="drivers",
        level="error" if wants and asyncpg is None else "ok",
        text=f"apsw {apsw or 'missing'}, asyncpg {asyncpg or 'missing'}, uvloop {uvloop or 'missing'}",
        advice="pip install 'windlass[postgres]'" if wants and asyncpg is None else "",
    )


def _version(distribution: str) -> str | None:
    try:
        return importlib.metadata.version(distribution)
    except importlib.metadata.PackageNotFoundError:
        return None


def _advice(error: WindlassError) -> str:
    return next((advice for kind, advice in _ADVICE.items() if isinstance(error, kind)), _UNREACHED)


def _print(found: Sequence[Finding]) -> None:
    show(make_sheet(_lines(found), gap=0))


def _lines(found: Sequence[Finding]) -> Iterator[tuple[Text, str]]:
    for finding in found:
        mark, style = _MARKS[finding.level]
        yield Text(f"{mark:8}", style), f"{one_line(finding.name)}: {one_line(finding.text)}"
        if finding.advice:
            yield Text(), f"→ {one_line(finding.advice)}"
