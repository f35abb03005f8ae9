"""The options that many verbs share, and how their values are read. A value that cannot be read is a usage
error, exit code 2, and says how to write it."""

from __future__ import annotations

import functools
import math
import os
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias, TypeVar

import click
from click.shell_completion import CompletionItem

from windlass.cli.target import Target, passwords_in
from windlass.core import ids
from windlass.core.durations import seconds
from windlass.core.states import State
from windlass.errors import WindlassError
from windlass.store.changes import READERS
from windlass.store.fields import Unit
from windlass.store.protocol import Store
from windlass.worker.reports.logs import FORMATS, LEVELS, set_up_logs

if TYPE_CHECKING:
    Reader: TypeAlias = click.ParamType[Any]
else:
    Reader = click.ParamType  # a plain class up to click 8.3

F = TypeVar("F", bound=Callable[..., Any])
COMPLETION_TIME: Final = 2.0
"""Seconds that a shell may wait for names."""


class DatabaseUrl(Reader):
    """A database URL as an argument. Everybody on the machine can read a password in it, as long as the
    command runs."""

    name = "url"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Note a password."""
        url = str(value)
        if url.startswith("postgres") and passwords_in(url):
            click.echo(
                "Note: the list of processes shows the password in this URL to every user of this machine. "
                "Give the URL as WINDLASS_DATABASE_URL, or leave the password to PGPASSWORD, ~/.pgpass or "
                "?passfile=FILE",
                err=True,
            )
        return url


database_option: Final = click.option(
    "--database",
    type=DatabaseUrl(),
    metavar="URL",
    help="Where jobs live: postgresql://…, sqlite:///path. [WINDLASS_DATABASE_URL]",
)
schema_option: Final = click.option(
    "--schema", metavar="NAME", help="The PostgreSQL schema. [WINDLASS_SCHEMA, windlass]"
)
app_option: Final = click.option(
    "--app", metavar="MODULE:ATTR", help="Your app; its settings apply unless a flag overrides them."
)
json_option: Final = click.option("--json", "as_json", is_flag=True, help="Print JSON, for scripts.")


def on_store(function: Callable[..., None]) -> Callable[..., None]:
    """A verb that works on a store: --database, --schema and --app arrive as one `Target`, in front."""

    @functools.wraps(function)
    def verb(*, database: str | None, schema: str | None, app: str | None, **rest: Any) -> None:
        function(Target(database=database, schema=schema, app=app), **rest)

    return database_option(schema_option(app_option(verb)))


def with_json(function: Callable[..., None]) -> Callable[..., None]:
    """Add the options of a store and --json, which arrives as `as_json`."""
    return on_store(json_option(function))


def log_options(function: Callable[..., None]) -> Callable[..., None]:
    """--log-format and --log-level of a verb that people leave running: its logs are set up by them."""

    @functools.wraps(function)
    def verb(*, log_format: str | None, log_level: str | None, **rest: Any) -> None:
        set_up_logs(
            log_format or os.environ.get("WINDLASS_LOG_FORMAT") or "text",
            log_level or os.environ.get("WINDLASS_LOG_LEVEL") or "info",
        )
        function(**rest)

    formats, levels = click.Choice(FORMATS), click.Choice(LEVELS)
    level = click.option("--log-level", type=levels, help="The least severe level to log. [info]")
    return click.option("--log-format", type=formats, help="Log as text or JSON lines. [text]")(level(verb))


def limit_option(default: int) -> Callable[[F], F]:
    """--limit of a listing."""
    return click.option(
        "--limit",
        type=click.IntRange(1, 10_000),
        metavar="N",
        default=default,
        show_default=True,
        help="List at most this many.",
    )


class QueueName(Reader):
    """The name of a queue, which a shell completes from those in the store."""

    name = "text"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """A name, as it is: who uses it checks it."""
        return str(value)

    def shell_complete(
        self, ctx: click.Context, param: click.Parameter, incomplete: str
    ) -> list[CompletionItem]:
        """The queues that begin like this; none where the store cannot be asked, or not at once."""

        async def find(store: Store) -> list[str]:
            return [queue.name for queue in await store.queues()]

        target = Target(**{name: ctx.params.get(name) for name in ("database", "schema", "app")})
        try:
            names = [] if target.missing() else target.ask(find, timeout=COMPLETION_TIME)
        except (WindlassError, OSError, TimeoutError):
            return []  # a line that is being typed is no place for an error
        return [CompletionItem(name) for name in names if name.startswith(incomplete)]


queue_filter: Final = click.option(
    "--queue", type=QueueName(), metavar="NAME", help="Only jobs of this queue."
)
task_filter: Final = click.option("--task", metavar="NAME", help="Only jobs of this task.")


def filters(*, state: bool) -> Callable[[F], F]:
    """--queue, --task, --tag, --text, --error and, where asked for, --state: which jobs a verb is about."""
    states = click.Choice([str(each) for each in State])
    failed = "dead and retrying jobs" if state else "jobs"
    options = [
        queue_filter,
        task_filter,
        *([click.option("--state", type=states, help="Only jobs in this state.")] if state else []),
        click.option("--tag", metavar="TAG", help="Only jobs with this tag."),
        click.option(
            "--text", metavar="TEXT", help="Only jobs whose payload or last error has this text; case counts."
        ),
        click.option("--error", metavar="TYPE", help=f"Only {failed} whose last error has this type."),
    ]

    def decorate(function: F) -> F:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


class JobId(Reader):
    """The id of a job: a whole number, as every listing prints it."""

    name = "id"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """Read an id."""
        text = str(value)
        id = ids.read(text)
        if id is None:
            self.fail(f"{text!r} is not a job id; `windlass jobs` lists them", param, ctx)
        return id


class Span(Reader):
    """A span of time as people write it, in seconds; `ever` is a word that stands for no end."""

    name = "duration"

    def __init__(
        self, hint: str = "", least: float = 0.0, ever: str | None = None, most: float = math.inf
    ) -> None:
        self._hint = hint
        self._least = least
        self._most = most
        self._ever = ever

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Read a span of time."""
        if self._ever is not None and value in (self._ever, math.inf):
            return math.inf
        try:
            span = seconds(value)
        except ValueError as error:
            self.fail(f"{error}{self._hint}", param, ctx)
        if span < self._least:
            self.fail(f"{value!r} is too short; the minimum is {self._least:g} s", param, ctx)
        if span > self._most:
            self.fail(f"{value!r} is too long; the maximum is {self._most:,.0f} s", param, ctx)
        return span


class Written(Reader):
    """A value of a setting as people write it: a rate, a size, a cap."""

    def __init__(self, unit: Unit, least: float = -math.inf) -> None:
        self.name: str = unit
        self._read = READERS[unit]
        self._least = least

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the value."""
        try:
            found = self._read(value)
        except ValueError as error:
            self.fail(str(error), param, ctx)
        if not isinstance(found, str) and found < self._least:
            self.fail(f"{value!r} is too small; the minimum is {self._least:g}", param, ctx)
        return found


class OrWord(Reader):
    """A value, or a word such as `none`, which takes a setting back to its default."""

    UNSET: Final = object()

    def __init__(self, kind: Reader, word: str = "none") -> None:
        self._kind = kind
        self._word = word
        self.name: str = kind.name

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Read the value, unless it is that word."""
        if value is self.UNSET or (isinstance(value, str) and value.strip().lower() == self._word):
            return self.UNSET
        return self._kind.convert(value, param, ctx)


def moment(text: str) -> datetime:
    """Read a time: ISO 8601, local without an offset."""
    try:
        return datetime.fromisoformat(text).astimezone()
    except (ValueError, OverflowError):
        hint = "is not a time; write 2030-01-31T08:00, with +02:00 or Z behind it if not local"
        raise click.BadParameter(f"{text!r} {hint}") from None


def header(text: str) -> tuple[str, str]:
    """Read a header, KEY=TEXT."""
    key, equals, value = text.partition("=")
    if not equals:
        raise click.BadParameter(f"{text!r} is not a header; write KEY=TEXT")
    return key, value


job_ids: Final = click.argument("ids", metavar="ID...", type=JobId(), nargs=-1, required=True)
