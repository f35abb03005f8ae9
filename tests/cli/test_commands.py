"""Every command: its help says what it does and what each option means, and what reads has --json."""

from collections.abc import Iterator

import click
import pytest

from tests.cli.kit import Desk, windlass
from windlass.cli import main
from windlass.cli.target import without_password
from windlass.core.harmless import harmless
from windlass.presentation.text import iso, local, one_line, parsed, span

READING = [
    *("jobs", "job show", "queues", "dead list", "dead causes", "workers", "doctor", "top", "migrate"),
    *("parents", "parent show", "parent set", "parent redrive", "parent cancel", "tasks"),
    *("maintain promote", "maintain rescue", "maintain retention", "maintain slots"),
    *("maintain schedules", "maintain governor", "queue show", "budgets", "budget take", "gates"),
    *("watermarks", "schedules list", "schedules next", "schedules run", "schedules backfill"),
    *("events", "maintain rollup"),
]
NAMED = ("job ", "parent ", "queue ", "budget ", "watermarks", "schedules ")
OF_THEIR_OWN = {"bench", "demo", "reconcile", "sql", "worker"}
"""These say in another way where jobs live; `bench` is a signpost."""


def commands(group: click.Group = main, path: str = "") -> Iterator[tuple[str, click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command, f"{path}{name} ")
        else:
            yield f"{path}{name}", command


ALL = dict(commands())


@pytest.mark.parametrize("name", ALL)
def test_every_command_and_option_has_its_help(name: str) -> None:
    command = ALL[name]
    assert command.help
    for option in command.params:
        if isinstance(option, click.Option):
            assert option.help, f"{name}: {option.opts}"
            assert ("may be repeated" in option.help) == option.multiple, f"{name}: {option.opts}"
    result = windlass(*name.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("name", READING)
def test_every_reading_verb_has_json(name: str) -> None:
    assert "--json" in {word for option in ALL[name].params for word in option.opts}


@pytest.mark.parametrize("name", sorted(name for name in ALL if name not in OF_THEIR_OWN))
def test_every_verb_can_be_pointed_at_a_database(name: str) -> None:
    words = {word for option in ALL[name].params for word in option.opts}
    assert {"--database", "--schema", "--app"} <= words


@pytest.mark.parametrize("name", [name for name in READING if name not in ("migrate", "doctor")])
def test_a_file_that_is_not_there_is_not_made(path: str, tmp_path: object, name: str) -> None:
    arguments: tuple[str, ...] = ("1",) if name.startswith(NAMED) and name != "schedules list" else ()
    arguments += ("--once",) if name.startswith(("top", "main")) else ()
    arguments += ("--parallel", "2") if name == "parent set" else ()
    arguments += ("--from", "2026-01-01", "--to", "2026-01-02") if name == "schedules backfill" else ()
    result = windlass(*name.split(), *arguments, "--database", path)
    assert result.exit_code == 1
    assert "there is no such file yet" in result.stderr
    again = windlass(*name.split(), *arguments, "--database", path)
    assert again.stderr == result.stderr


def test_m6_a_store_that_cannot_be_reached_is_one_line_without_the_password() -> None:
    desk = Desk("postgresql://ada:s3cret@127.0.0.1:1/shop")
    said = desk.refused("queues")
    assert said.startswith("Error: postgresql://127.0.0.1:1/shop: ")
    assert len(said.splitlines()) == 1
    assert "s3cret" not in said


@pytest.mark.parametrize(
    ("url", "message", "said"),
    [
        (
            "postgresql://ada:a@h/db",
            "a bad port in ada:a@h of a database",
            "*** bad port in ada:***@h of *** database",
        ),
        ("postgresql://ada:a%21@h/db", "no a!, a%21 here, but data!", "no ***, *** here, but data!"),
        (
            "postgresql://ada:s3cret@h/db",
            "postgresql://ada:s3cret@h/db is away: 's3cret'",
            "*** is away: '***'",
        ),
        ("postgresql:///db?password=pg&user=ada", "password=pg of pg_ident", "password=*** of pg_ident"),
        ("sqlite:///a.db", "a.db is away", "a.db is away"),
    ],
)
def test_m6_a_password_is_masked_where_it_stands_by_itself(url: str, message: str, said: str) -> None:
    """A short one is also part of other words: those stay readable."""
    assert without_password(message, url) == said


def test_a_schema_that_was_never_migrated_names_the_command(pg_database: str) -> None:
    assert "windlass migrate" in Desk(pg_database).refused("jobs")


def test_m5_text_that_a_terminal_would_obey() -> None:
    assert harmless("a\x1b[2Jb\x9b\u202e\ud800\n") == "a\\x1b[2Jb\\x9b\\u202e\\ud800\\n"
    assert harmless("a\n\tb\r", lines=True) == "a\n\tb\\r"
    assert harmless("Grüße 漢字 🎉") == "Grüße 漢字 🎉"
    assert one_line("a\n  b", 3) == "a b"
    assert one_line("abcd", 3) == "ab…"


def test_times_and_spans() -> None:
    assert [span(s) for s in (0, -1, 0.25, 9, 59.9, 60, 200, 3661, 7 * 86400 + 4 * 3600)] == [
        *("0 s", "0 s", "0.2 s", "9 s", "59 s", "1 min", "3 min 20 s", "1 h 1 min", "7 d 4 h"),
    ]
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(None) is None
    assert local(100, now=40).endswith("(in 1 min)")
    assert local(100, now=130).endswith("(30 s ago)")


def test_a_text_that_is_no_json_is_given_as_it_stands() -> None:
    assert parsed('{"a": 1e999}') == {"a": "1e999"}
    assert parsed("{") == "{"
    assert parsed("[" * 100_000) == "[" * 100_000
    assert parsed("1" * 5000) == "1" * 5000
