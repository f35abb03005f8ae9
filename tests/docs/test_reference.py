"""The reference is complete and true: every setting, option, command, metric, endpoint, event, error, public
name and SQL function is in it, with its real default, signature and role, and nothing that is not there."""

import inspect
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, get_args

import psycopg
import pytest

import windlass
from tests.docs.pages import PAGES, ROOT, name_of, prose
from tests.docs.reference import FOLDER, WRITERS, blocks, fresh, pages
from tests.docs.reference.python import undocumented
from tests.postgres import Server
from windlass import Retry, Windlass, endings, errors
from windlass.chunks.batches import BATCH, BATCH_TIMEOUT
from windlass.chunks.task import ChunkedOptions
from windlass.core.durations import seconds
from windlass.settings import OTHERS, PREFIX, Settings, load
from windlass.store.fields import JobOptions
from windlass.store.postgres.connections.errors import BY_CODE
from windlass.store.postgres.schema import sources
from windlass.store.records import EventKind
from windlass.tasks.commands import CommandOptions
from windlass.tasks.schedule_options import ScheduleOptions
from windlass.tasks.task import RegisteredTask, TaskOptions

WITHOUT_A_VARIABLE = {"routes"}
"""Settings that no single line of text could hold."""
KINDS = ("producer", "worker", "reader")
PUBLIC = re.compile(r"Callers?: (users|the owner|every role)")
Row = dict[str, str]


def page(name: str) -> str:
    return (FOLDER / f"{name}.md").read_text(encoding="utf-8")


def section(text: str, title: str) -> str:
    """What stands below a heading, up to the next of its rank or a higher one."""
    found = re.search(rf"^(#+) {re.escape(title)}$", text, re.MULTILINE)
    assert found, f"there is no heading {title!r}"
    rest = text[found.end() :]
    end = re.search(rf"^#{{1,{len(found[1])}}} ", rest, re.MULTILINE)
    return rest[: end.start()] if end else rest


def rows(text: str, first: str) -> list[Row]:
    """The rows of all tables whose first column has this name, by the names of their columns."""
    found: list[Row] = []
    head: list[str] = []
    for line in text.splitlines():
        cells = [cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
        if not line.startswith("|"):
            head = []
        elif not head:
            head = cells
        elif head[0] == first and not line.startswith("|---"):
            found.append(dict(zip(head, cells, strict=True)))
    return found


def names(table: Iterable[Row], column: str) -> list[str]:
    return [row[column].strip("`") for row in table]


def check_names(seen: list[str], real: Iterable[str]) -> None:
    assert sorted(seen) == sorted(real)


# -- what a program writes ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", pages(), ids=lambda path: path.name)
def test_what_is_generated_is_fresh(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text == fresh(text), f"run: python -m tests.docs.reference ({name_of(path)} is stale)"


def test_everything_that_can_be_generated_is_there() -> None:
    assert sorted(name for path in pages() for name in blocks(path.read_text(encoding="utf-8"))) == sorted(
        WRITERS
    )


def test_every_public_name_has_its_words() -> None:
    assert list(undocumented()) == []


# -- settings and options -----------------------------------------------------------------------------------


SETTINGS = section(page("settings"), "Settings of an app")


def test_every_setting_is_told_of_once() -> None:
    check_names(names(rows(SETTINGS, "setting"), "setting"), Settings.__struct_fields__)


@pytest.mark.parametrize("row", rows(SETTINGS, "setting"), ids=lambda row: row["setting"])
def test_a_setting_has_its_variable_and_default(row: Row, tmp_path: Path) -> None:
    name, default = row["setting"].strip("`"), row["default"].strip("`")
    variable = "–" if name in WITHOUT_A_VARIABLE else f"`{PREFIX}{name.upper()}`"
    assert row["variable"] == variable
    real = getattr(Settings(), name)
    if default == "none":
        assert not real
    else:
        file = load(
            code={name: int(default) if default.isdecimal() else default}, environ={}, directory=tmp_path
        )
        assert getattr(file, name) == real
    assert row["unit"]
    assert row["what it does"]
    assert row["change it when"]


def test_no_page_names_a_variable_that_nobody_reads() -> None:
    known = {PREFIX + name.upper() for name in (*Settings.__struct_fields__, *OTHERS)}
    assert known >= {f"{PREFIX}{other}" for other in OTHERS}
    others = set(names(rows(SETTINGS, "variable"), "variable"))
    assert others == {f"{PREFIX}{other}" for other in OTHERS} | {"DATABASE_URL"}
    for path in PAGES:
        named = set(re.findall(rf"\b{PREFIX}[A-Z_]+\b", path.read_text(encoding="utf-8")))
        assert named <= known, name_of(path)


def parameters(function: Any, *but: str) -> list[str]:
    return [name for name in inspect.signature(function).parameters if name not in ("self", "name", *but)]


def test_what_only_code_can_say_is_told_of() -> None:
    real = parameters(Windlass, "database_url", "settings")
    check_names(names(rows(SETTINGS, "parameter of `Windlass(...)`"), "parameter of `Windlass(...)`"), real)


OPTIONS: dict[str, Iterable[str]] = {
    "Options of a task": [*TaskOptions.__annotations__, "batch"],
    "Options of a job": JobOptions.__annotations__,
    "Options of a schedule": ScheduleOptions.__annotations__,
    "Options of a budget": [*parameters(Windlass.budget), "cap_per"],  # code says both as cap="2M/day"
    "Options of a reconciler": parameters(RegisteredTask.find_gaps, "find"),
    "Retry": parameters(Retry),
}


@pytest.mark.parametrize("title", OPTIONS)
def test_every_option_is_told_of_once(title: str) -> None:
    check_names(names(rows(section(page("settings"), title), "option"), "option"), OPTIONS[title])


@pytest.mark.parametrize(
    ("title", "real"),
    [
        ("Options of a chunked task", {*ChunkedOptions.__annotations__, "split"}),
        ("Options of a command", {*parameters(Windlass.command, "options"), *CommandOptions.__annotations__}),
    ],
)
def test_every_option_is_told_of_here_or_as_one_of_a_task(title: str, real: set[str]) -> None:
    text = section(page("settings"), title)
    assert all(f"`{option}`" in text for option in real)
    assert set(names(rows(text, "option"), "option")) <= real


def test_the_defaults_of_options_are_the_real_ones() -> None:
    shown = {
        title: {row["option"].strip("`"): row["default"].strip("`") for row in rows(text, "option")}
        for title in ("Retry", "Options of a chunked task", "Options of a reconciler", "Options of a budget")
        if (text := section(page("settings"), title))
    }
    backoff = Retry().backoff
    retry = shown["Retry"]
    assert (int(retry["attempts"]), float(retry["jitter"])) == (Retry().attempts, backoff.jitter)
    assert (seconds(retry["base"]), seconds(retry["cap"])) == (backoff.base, backoff.cap)
    chunked = shown["Options of a chunked task"]
    assert (chunked["parallel"], int(chunked["batch"])) == ("any number", BATCH)
    assert seconds(chunked["batch_timeout"]) == BATCH_TIMEOUT
    every = inspect.signature(RegisteredTask.find_gaps).parameters["every"].default
    assert seconds(shown["Options of a reconciler"]["every"]) == every
    pause = inspect.signature(Windlass.budget).parameters["breaker_pause"].default
    assert shown["Options of a budget"]["breaker_pause"] == pause


# -- errors and events --------------------------------------------------------------------------------------


def exceptions(module: Any, base: type) -> list[str]:
    return [
        name for name, value in vars(module).items() if inspect.isclass(value) and issubclass(value, base)
    ]


def test_every_error_is_told_of_once() -> None:
    raised = [name for name in exceptions(endings, endings.Ending) if name != "Ending"]
    shown = rows(page("errors"), "exception")
    check_names(names(shown, "exception"), exceptions(errors, errors.WindlassError) + raised)
    assert all(all(row.values()) for row in shown)


CARRYING = {
    "WL001": "AlreadyEnqueued", "WL011": "QueueFull", "WL012": "Shed", "WL019": "Finalizing",
    "WL021": "SignalRefused",
}  # fmt: skip
"""Codes whose errors carry more than a message."""


def test_every_sqlstate_is_told_of_once() -> None:
    shown = {
        row["SQLSTATE"].strip("`"): row["exception"].strip("`") for row in rows(page("errors"), "SQLSTATE")
    }
    ours = {code: kind.__name__ for code, kind in BY_CODE.items() if code.startswith("WL")}
    assert shown == ours | CARRYING
    raised = {code for each in sources.definitions() for code in re.findall(r"'(WL\d+)'", each.text)}
    assert raised <= set(shown)


def test_every_kind_of_event_is_told_of_once() -> None:
    check_names(names(rows(page("events"), "kind"), "kind"), get_args(EventKind))


# -- SQL ----------------------------------------------------------------------------------------------------


def documented_functions() -> dict[str, tuple[str, str]]:
    """The functions of the page: signature and roles."""
    found = re.findall(
        r"^### (\w+)\n\n```text\nwindlass\.\w+(.+?)\n```\n\nRoles: ([^\n]+)\.$",
        page("sql"),
        re.MULTILINE | re.DOTALL,
    )
    return {name: (shortened(signature), roles) for name, signature, roles in found}


def shortened(signature: str) -> str:
    """A signature as PostgreSQL tells it, as people write it."""
    for long, short in (
        ("timestamp with time zone", "timestamptz"),
        ("double precision", "float8"),
        ("integer", "int"),
    ):
        signature = signature.replace(long, short)
    signature = re.sub(r"::[a-z0-9]+(\[\])?", "", signature)
    return " ".join(signature.replace("( ", "(").replace("(\n    ", "(").split())


@pytest.fixture
def roles(pg_server: Server, pg_dsn: str) -> Iterator[dict[str, str]]:
    """A role of each kind, by its kind."""
    made = {kind: f"reference_{kind}" for kind in KINDS}
    with psycopg.connect(pg_dsn, autocommit=True) as connection:
        for kind, role in made.items():
            connection.execute(f"CREATE ROLE {role}".encode())
            connection.execute("SELECT windlass.allow(%s, %s)", (role, kind))
        yield made
        for role in made.values():
            connection.execute(f"DROP OWNED BY {role}".encode())
            connection.execute(f"DROP ROLE {role}".encode())


def test_the_functions_of_a_database_are_as_the_page_says(pg_dsn: str, roles: dict[str, str]) -> None:
    """Signatures, and who may call them; a function that no page tells of has no users among its callers."""
    may = ", ".join(f"has_function_privilege('{roles[kind]}', p.oid, 'EXECUTE')" for kind in KINDS)
    with psycopg.connect(pg_dsn) as connection:
        found = connection.execute(
            f"SELECT p.proname, pg_get_function_arguments(p.oid), pg_get_function_result(p.oid), {may}"
            "  FROM pg_proc p WHERE p.pronamespace = 'windlass'::regnamespace".encode()
        ).fetchall()
    real = {
        name: (
            shortened(f"({arguments}) → {result}"),
            ", ".join(kind for kind, allowed in zip(KINDS, granted, strict=True) if allowed) or "the owner",
        )
        for name, arguments, result, *granted in found
    }
    ours = {each.name: each.header for each in sources.definitions() if each.kind != "VIEW"}
    assert set(real) == set(ours)
    public = {name for name, header in ours.items() if PUBLIC.search(header)}
    seen = documented_functions()
    assert set(seen) == public
    assert seen == {name: real[name] for name in public}


def test_the_views_of_a_database_are_as_the_page_says(pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn) as connection:
        found = connection.execute(
            "SELECT 'windlass.' || c.relname, array_agg(a.attname::text ORDER BY a.attnum) FROM pg_class c"
            "  JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped"
            " WHERE c.relnamespace = 'windlass'::regnamespace AND c.relkind = 'v' GROUP BY 1"
        ).fetchall()
    shown = {
        row["view"].strip("`"): re.findall(r"`(\w+)`", row["columns"]) for row in rows(page("sql"), "view")
    }
    assert shown == dict(found)


# -- the rest -----------------------------------------------------------------------------------------------


def test_every_name_of_the_package_is_on_its_page() -> None:
    text = page("python")
    assert all(re.search(rf"^### `{name}\b", text, re.MULTILINE) for name in windlass.__all__)


def test_every_page_of_the_reference_is_more_than_a_table() -> None:
    for path in pages():
        first = prose(path).split("\n\n")[1]
        assert not first.startswith(("#", "|")), f"{name_of(path)} begins without a word"


def test_readme_calls_its_task_by_one_name() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    (name,) = re.findall(r'@app\.task\(name="([^"]+)"', readme)
    used = re.findall(r"""(?:enqueue|named)\(['"]([a-z._]+)['"]""", readme)
    assert len(used) >= 2
    assert set(used) == {name}
