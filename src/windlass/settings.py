"""Settings, and where they come from: flags over environment over pyproject.toml over code over defaults.

    flags            windlass migrate --database URL
    environment      WINDLASS_DATABASE_URL, WINDLASS_SCHEMA, WINDLASS_RETENTION, … (each field but routes)
    pyproject.toml   [tool.windlass] in this directory or the nearest one above it that has a pyproject.toml
    code             Windlass("sqlite:///jobs.db", retention="3d")
    defaults         those below; for the database DATABASE_URL, else sqlite:///windlass.db

Whoever deploys has the last word over whoever wrote the code. A database URL may hold a password, so it is
never shown, and neither are credentials: not in a repr, not in an error.
"""

from __future__ import annotations

import functools
import logging
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypedDict, get_args, get_type_hints

import msgspec

from windlass.core.abilities import read_abilities
from windlass.core.durations import Duration, Size, seconds, size
from windlass.core.names import check_name, meant_or_known, nearest
from windlass.core.slots import MAX_SLOTS, MAX_TOTAL
from windlass.errors import ConfigurationError
from windlass.store.settings import StoreSettings

logger: Final = logging.getLogger("windlass")
DEFAULT_URL: Final = "sqlite:///windlass.db"
PREFIX: Final = "WINDLASS_"
OTHERS: Final = ("HEALTH", "LOG_FORMAT", "LOG_LEVEL")
"""Variables with the prefix that are not settings: the commands `worker` and `web` read them."""
MIN_SECRET: Final = 32
SECRET: Final = frozenset({"database_url", "secret", "web_read", "web_operate"})
"""Settings that hold secrets and are never shown."""
_NOT_OURS: Final = ("SOAK_", "TEST_")  # prefixes of variables that tests read
Events = Literal["notable", "all", "off"]
"""Which runs make an event: those that did not simply succeed, all, or none."""
StartMethod = Literal["fork", "exec"]
"""How a child process starts: forked from one that has imported the app, or as a program of its own."""
_WORKER_ID: Final = re.compile(r"[A-Za-z0-9._-]{1,80}")
_SCHEMA: Final = re.compile(r"[a-z_][a-z0-9_]{0,47}")


class SettingsInCode(TypedDict, total=False):
    """The settings that `Windlass(...)` takes by name."""

    schema: str
    retention: Duration
    size_limit: Size
    idempotency_retention: Duration
    ageing_step: Duration
    park_after: int
    idle_poll: Duration
    stream_limit: int
    routes: Mapping[str, str]
    lease: Duration
    sweep: Duration
    shutdown: Duration
    grace: Duration
    unresponsive: Duration
    poison: int
    queues: Mapping[str, int | None] | Sequence[str] | str
    abilities: Iterable[str] | str
    processes: int
    start: StartMethod
    worker_id: str
    label_prefix: str
    label_version: str
    imports: Sequence[str] | str
    max_jobs: int
    max_memory: Size
    events: Events
    event_buffer: int
    report_every: Duration
    web_read: Sequence[str] | str
    web_operate: Sequence[str] | str
    web_hosts: Sequence[str] | str
    metrics_hosts: Sequence[str] | str
    secret: str


def _url(value: Any) -> str:
    if not isinstance(value, str) or "://" not in value:
        raise ValueError("this is not a URL; write postgresql://… or sqlite:///path")
    return value


def _secret(value: Any) -> str:
    if not isinstance(value, str) or 0 < len(value) < MIN_SECRET:
        raise ValueError(f"a secret is a text of at least {MIN_SECRET} characters")
    return value


def _schema(value: Any) -> str:
    if not isinstance(value, str) or not _SCHEMA.fullmatch(value) or value.startswith("pg_"):
        raise ValueError(f"{value!r} cannot be a schema; use up to 48 of a-z 0-9 _, not beginning with pg_")
    return value


def _routes(value: Any) -> dict[str, str]:
    if not isinstance(value, Mapping):
        raise ValueError("routes are a table from task names to queues")
    return dict(value)


class PerProcess(int):
    """The slots of a queue in each process, not over the cluster: `imports=4/process` [K10]."""

    def __repr__(self) -> str:
        return f"{int(self)}/process"


def read_queues(value: Any) -> dict[str, int | None]:
    """`mail=8, imports=4/process, other` as text, a list of the same, or a table; blanks and repeats are
    dropped [K7]."""
    if isinstance(value, Mapping):
        pairs = [_queue(f"{name}={n}") if isinstance(n, str) else (name, n) for name, n in value.items()]
    elif isinstance(value, str | Sequence):
        words = value.split(",") if isinstance(value, str) else value
        pairs = [_queue(word) for word in words if isinstance(word, str) and word.strip()]
    else:
        raise ValueError("queues are written mail=8,imports=2")
    read: dict[str, int | None] = {}
    for name, slots in pairs:
        most = MAX_SLOTS if isinstance(slots, PerProcess) else MAX_TOTAL
        if slots is not None and (type(slots) not in (int, PerProcess) or not 1 <= slots <= most):
            raise ValueError(
                f"queue {name!r}: {slots!r} slots are not possible; write a whole number from 1 to {most:,}"
            )
        read[check_name("queue", name)] = slots
    return read


def _queue(word: str) -> tuple[str, int | None]:
    name, equals, slots = word.partition("=")
    number, each, unit = (part.strip() for part in slots.partition("/"))
    if equals and (not number.isdecimal() or (each and unit != "process")):
        raise ValueError(f"{word!r} is not a queue with its slots; write mail=8 or mail=4/process")
    return name.strip(), (PerProcess(number) if each else int(number)) if equals else None


def _whole(least: int) -> Callable[[Any], int]:
    def read(value: Any) -> int:
        number = int(value) if isinstance(value, str) and value.strip().isdecimal() else value
        if type(number) is not int or number < least:
            raise ValueError(f"{value!r} is not a whole number from {least}")
        return number

    return read


def _word(value: Any) -> str:
    if not isinstance(value, str) or not value.isprintable():
        raise ValueError(f"{value!r} is not a printable text")
    return value.strip()


def read_worker_id(value: Any) -> str:
    """An id that a worker is given; empty: none [K13]."""
    if not isinstance(value, str) or not _WORKER_ID.fullmatch(value.strip() or "-"):
        raise ValueError(f"{value!r} cannot be a worker id; use up to 80 of A-Z a-z 0-9 . _ -")
    return value.strip()


def _names(value: Any) -> tuple[str, ...]:
    words = value.split(",") if isinstance(value, str) else value
    if not isinstance(words, Sequence) or not all(isinstance(word, str) for word in words):
        raise ValueError("this is a list of names, separated by commas")
    return tuple(dict.fromkeys(word.strip() for word in words if word.strip()))


def _pairs(value: Any) -> tuple[str, ...]:
    """Credentials, as name:secret; an error shows nothing of them."""
    pairs = _names(value)
    if not all(name and secret for name, _, secret in (pair.partition(":") for pair in pairs)):
        raise ValueError("these are name:secret pairs, separated by commas")
    return pairs


def _lease(value: Any) -> float:
    """A lease so short that every worker would lose it falls back to the default, with a warning [C4]."""
    span = _signed(value)
    if span < 1.0:
        _warn_once(f"lease: {value!r} is shorter than 1 s; using 30 s instead")
        return 30.0
    return span


def _sweep(value: Any) -> float:
    """Zero would mean to look for dead workers without a pause [C4]."""
    span = _signed(value)
    if span <= 0.0:
        _warn_once(f"sweep: {value!r} is not a time between two sweeps; using 15 s instead")
        return 15.0
    return span


def _one_of(words: object) -> Callable[[Any], str]:
    def read(value: Any) -> str:
        if value not in get_args(words):
            raise ValueError(f"{value!r} is not one of {', '.join(get_args(words))}")
        return str(value)

    return read


def _at_least(least: float) -> Callable[[Any], float]:
    def read(value: Any) -> float:
        span = seconds(value)
        if span < least:
            raise ValueError(f"{value!r} is too short; the minimum is {least:g} s")
        return span

    return read


def _signed(value: Any) -> float:
    """A duration that may be negative. Raises ValueError for anything else."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, str) and value.strip().startswith("-"):
        return -seconds(value.strip()[1:])
    if type(value) in (int, float) and value < 0:
        return float(value)
    return seconds(value)


class Settings(msgspec.Struct, frozen=True, kw_only=True):
    """Every setting of an app, read and checked: beside the type of each stands how it is read."""

    database_url: Annotated[str, _url] = DEFAULT_URL
    """Where jobs live: postgresql://… or sqlite:///path."""

    schema: Annotated[str, _schema] = "windlass"
    """The PostgreSQL schema that holds everything of Windlass."""

    retention: Annotated[float, seconds] = StoreSettings().retention
    """How long succeeded and cancelled jobs are kept [K6]."""

    size_limit: Annotated[int, size] = StoreSettings().size_limit
    """Size of the logs in bytes beyond which the oldest finished jobs are deleted early [K6]."""

    idempotency_retention: Annotated[float, seconds] = StoreSettings().idempotency_retention
    """How long an idempotency key is remembered [E2]."""

    ageing_step: Annotated[float, seconds] = StoreSettings().ageing_step
    """A waiting job gains one priority step per this much time; 0 switches ageing off [C2]."""

    park_after: Annotated[int, _whole(1)] = StoreSettings().park_after
    """After this many dead runs of a unique key in a row, enqueues of it by schedules and reconcilers are
    parked for a while [O7]."""

    idle_poll: Annotated[float, _at_least(0.01)] = StoreSettings().idle_poll
    """How long an idle worker waits at most before it looks for work, where no wake-up can reach it: NOTIFY
    is silent, or another process wrote to the SQLite file [K12]."""

    stream_limit: Annotated[int, _whole(1)] = StoreSettings().stream_limit
    """How many events of a job's stream are kept; the oldest go first, a quarter of that at a time [W3]."""

    routes: Annotated[dict[str, str], _routes] = {}
    """The queue of a task whose code does not name one: {"gh.*": "gh"} [E5]."""

    lease: Annotated[float, _lease] = 30.0
    """Seconds without a heartbeat after which a worker's jobs go to others. Heartbeats come three times as
    often [C4]."""

    sweep: Annotated[float, _sweep] = 15.0
    """How often to look for dead workers, at least [C8]; every tenth of a lease, or 3 s if less, anyway."""

    shutdown: Annotated[float, seconds] = 30.0
    """How long a worker that was asked to stop waits for its running jobs [K2]."""

    grace: Annotated[float, seconds] = 5.0
    """Seconds past a job's deadline after which a child process that ignores it is killed [C6]. A child that
    does not exit is killed this long, and 10 s more, after `shutdown`."""

    unresponsive: Annotated[float, seconds] = 60.0
    """Seconds after which a child with free slots that gets no answer is replaced; 0: never, nor is one that
    does not move [fault 32]."""

    poison: Annotated[int, _whole(1)] = 3
    """A job is dead after this many deaths of workers that ran it [C8]."""

    queues: Annotated[dict[str, int | None], read_queues] = {}
    """The queues a worker serves, with their slots in the whole cluster if they are new [K1]."""

    abilities: Annotated[frozenset[str], read_abilities] = frozenset()
    """Abilities of a worker that some jobs need, such as gpu [K14]."""

    processes: Annotated[int, _whole(1)] = 1
    """Child processes of a worker."""

    start: Annotated[StartMethod, _one_of(StartMethod)] = "fork"
    """How child processes start: forked from one that has imported the app, or each with an import of its own
    [K9]."""

    worker_id: Annotated[str, read_worker_id] = ""
    """The id of a worker, kept over restarts; its processes are ID.1, ID.2 and so on. Empty: random for each
    process [K13]."""

    label_prefix: Annotated[str, _word] = ""
    """The first part of a worker's label; the host's name if empty [K7]."""

    label_version: Annotated[str, _word] = ""
    """The version of your code, shown in a worker's label [K7]."""

    imports: Annotated[tuple[str, ...], _names] = ()
    """Modules and packages to import for their tasks [K9]."""

    max_jobs: Annotated[int, _whole(0)] = 0
    """Replace a child after this many jobs; 0: never [K9]."""

    max_memory: Annotated[int, size] = 0
    """Replace a child that uses more memory than this, in bytes; 0: never [K9]."""

    events: Annotated[Events, _one_of(Events)] = "notable"
    """Which runs appear in timelines: those that did not simply succeed, all, or none [M2]."""

    event_buffer: Annotated[int, _whole(0)] = 50_000
    """Events that a process buffers; further ones are dropped and counted [M2]."""

    report_every: Annotated[float, _at_least(0.1)] = 2.0
    """How often a process reports its counts and events to the store [M2]."""

    web_read: Annotated[tuple[str, ...], _pairs] = ()
    """Who may read Mission Control: name:secret pairs [M5]."""

    web_operate: Annotated[tuple[str, ...], _pairs] = ()
    """Who may also operate it: name:secret pairs [M5]."""

    web_hosts: Annotated[tuple[str, ...], _names] = ()
    """Host names that Mission Control serves besides loopback: ops.example.com; .example.com for all that end
    so; * for any; https://ops.example.com behind a proxy that terminates TLS [M5]."""

    metrics_hosts: Annotated[tuple[str, ...], _names] = ()
    """Host names at which Mission Control serves /metrics and nothing else, written like `web_hosts`: those
    that a cluster gives it, such as windlass-web.default.svc [M5]."""

    secret: Annotated[str, _secret] = ""
    """The secret that signs addresses which send a signal: the same for those who make them and for Mission
    Control, 32 characters or more [W2]."""

    def for_store(self) -> StoreSettings:
        """The part of the settings that a store understands."""
        return StoreSettings(**{name: getattr(self, name) for name in StoreSettings.__struct_fields__})

    def __repr__(self) -> str:
        shown = {name: getattr(self, name) for name in self.__struct_fields__ if name not in SECRET}
        return f"Settings({', '.join(f'{name}={value!r}' for name, value in shown.items())})"

    __str__ = __repr__


@functools.cache
def _readers() -> Mapping[str, Callable[[Any], Any]]:
    hints = get_type_hints(Settings, include_extras=True)
    return {name: hint.__metadata__[0] for name, hint in hints.items()}


def load(
    *,
    code: Mapping[str, Any] | None = None,
    flags: Mapping[str, Any] | None = None,
    environ: Mapping[str, str] = os.environ,
    directory: Path | None = None,
) -> Settings:
    """Read the settings from all sources; None counts as not given. Raises ConfigurationError."""
    found: dict[str, Any] = {}
    if environ.get("DATABASE_URL"):
        found["database_url"] = environ["DATABASE_URL"]
    found |= _checked(code or {}, "Windlass(…)")
    found |= _from_pyproject(directory or Path.cwd())
    for name in _readers():
        if environ.get(variable := PREFIX + name.upper()):
            found |= _checked({name: environ[variable]}, variable)
    _warn_of_misspelt(environ)
    found |= _checked(flags or {}, "command line")
    return Settings(**found)


def _from_pyproject(directory: Path) -> dict[str, Any]:
    import tomllib

    places = (place / "pyproject.toml" for place in (directory, *directory.parents))
    path = next(filter(Path.is_file, places), None)
    if path is None:
        return {}
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"cannot read {path.name}: {error}") from error
    return _checked(content.get("tool", {}).get("windlass", {}), "[tool.windlass] in pyproject.toml")


def _checked(given: Mapping[str, Any], source: str) -> dict[str, Any]:
    """Read each value by its field's rule; an error names the source and the field, never a URL."""
    checked: dict[str, Any] = {}
    for name, value in given.items():
        check_setting(name, source)
        if value is None:
            continue
        try:
            checked[name] = _readers()[name](value)
        except ValueError as error:
            raise ConfigurationError(f"{source}: {name}: {error}") from None
    return checked


def check_setting(name: str, source: str) -> None:
    """Raise ConfigurationError for the name of a setting that there is not."""
    known = Settings.__struct_fields__
    if name not in known:
        raise ConfigurationError(f"{source}: there is no setting {name!r}{meant_or_known(name, known)}")


def _warn_of_misspelt(environ: Iterable[str]) -> None:
    """A variable that is no setting may be a typo. It is not an error: others may use the prefix, too."""
    known = [name.upper() for name in _readers()] + list(OTHERS)
    for variable in environ:
        name = variable.removeprefix(PREFIX)
        if name == variable or name in known or name.startswith(_NOT_OURS):
            continue
        if (meant := nearest(name, known)) is not None:
            _warn_once(f"{variable} is not a setting and has no effect; did you mean {PREFIX}{meant}?")


def _warn_once(message: str) -> None:
    if message not in _warned:
        _warned.add(message)
        logger.warning("%s", message)


_warned: Final[set[str]] = set()  # settings are read more than once, by a command and by its app
