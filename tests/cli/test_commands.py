"""Every command: its help says what it does and what each option means, what reads has --json, and shells
complete it."""

import os
import re
import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.cli.kit import Desk, windlass
from tests.stopwatch import Stopwatch
from windlass.cli import main
from windlass.cli.options import COMPLETION_TIME
from windlass.cli.target import without_password
from windlass.core.harmless import harmless
from windlass.presentation.text import iso, local, one_line, parsed, span

READING = [
    *("jobs", "job show", "queues", "dead list", "dead causes", "workers", "doctor", "top", "migrate"),
    *("parents", "parent show", "parent parts", "parent set", "parent redrive", "parent cancel", "tasks"),
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
    assert [span(s) for s in (0, -1, 0.0001, 0.033, 0.25, 9, 59.9, 60, 200, 3661)] == [
        *("0 s", "0 s", "0 s", "33 ms", "0.2 s", "9 s", "59 s", "1 min", "3 min 20 s", "1 h 1 min"),
    ]
    assert [span(days * 86400) for days in (7 + 4 / 24, 365, 36499)] == ["7 d 4 h", "1 y", "99 y 364 d"]
    assert iso(0) == "1970-01-01T00:00:00.000Z"
    assert iso(None) is None
    assert local(100, now=40).endswith("(in 1 min)")
    assert local(100, now=130).endswith("(30 s ago)")


def test_a_text_that_is_no_json_is_given_as_it_stands() -> None:
    assert parsed('{"a": 1e999}') == {"a": "1e999"}
    assert parsed("{") == "{"
    assert parsed("[" * 100_000) == "[" * 100_000
    assert parsed("1" * 5000) == "1" * 5000


# -- completion by shells --------------------------------------------------------------------------------

PAGE = Path(__file__).parents[2] / "docs/reference/commands.md"
ROW = re.compile(r"^\| (bash|zsh|fish)\b.*\| `([^`]*_WINDLASS_COMPLETE[^`]*)` \|$", re.M)
LINES = dict(ROW.findall(PAGE.read_text()))
SCRIPTS = Path(sys.executable).parent


def shell(*command: str, **environ: str) -> str:
    """What a command prints, with `windlass` on its path."""
    around = {**os.environ, "PATH": f"{SCRIPTS}{os.pathsep}{os.environ['PATH']}", **environ}
    return subprocess.run(command, env=around, check=True, capture_output=True, text=True).stdout


def completed(words: str, **environ: str) -> list[str]:
    """What bash would be offered for the last of these words."""
    place = str(len(words.split(" ")) - 1)
    asked = {"_WINDLASS_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": place}
    lines = shell("windlass", **asked, **environ).split()
    return [line.removeprefix("plain,") for line in lines]


def test_verbs_and_options_are_completed() -> None:
    assert completed("windlass que") == ["queue", "queues"]
    assert "bench" not in completed("windlass ")
    assert completed("windlass queue pa") == ["pause"]
    assert completed("windlass enqueue --pri") == ["--priority"]
    assert completed("windlass --ver") == ["--version"]


def test_names_of_queues_are_completed(any_desk: Desk) -> None:
    for name in ("mail", "main", "other"):
        any_desk.ok("queue", "set", name)
    there = {"WINDLASS_DATABASE_URL": any_desk.url}
    assert completed("windlass queue pause ma", **there) == ["mail", "main"]
    assert completed("windlass jobs --queue o", **there) == ["other"]
    assert completed("windlass enqueue t --queue o", **there) == ["other"]
    assert completed(f"windlass events --database {any_desk.url} --queue o") == ["other"]


def test_a_store_that_is_not_there_completes_nothing_and_makes_nothing(tmp_path: Path) -> None:
    for url in (f"sqlite:///{tmp_path}/none.db", "postgresql://127.0.0.1:1/none", "nonsense://"):
        assert completed("windlass queue pause ma", WINDLASS_DATABASE_URL=url) == []
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"postgresql://127.0.0.1:{silent.getsockname()[1]}/none"
        watch = Stopwatch()
        assert completed("windlass queue pause ma", WINDLASS_DATABASE_URL=url) == []
    assert watch.seconds() < COMPLETION_TIME + 5.0  # and the start of an interpreter


def test_verbs_are_completed_without_importing_any() -> None:
    code = (
        "import sys, click; from windlass.cli import main; "
        "items = main.shell_complete(click.Context(main), 'que'); "
        "print(*(item.value for item in items), *(m for m in sys.modules if m.startswith('windlass.cli.')))"
    )
    assert shell(sys.executable, "-c", code).split() == ["queue", "queues"]


@pytest.mark.parametrize("name", ["bash", "zsh", "fish"])
def test_the_line_of_the_page_gives_the_shell_what_it_needs(name: str) -> None:
    """Run by the shell itself where it is installed; elsewhere the script that the line asks for."""
    line = LINES[name].replace("\\|", "|")
    if shutil.which(name) is None:
        assert "windlass" in shell("windlass", _WINDLASS_COMPLETE=f"{name}_source")
        assert f"_WINDLASS_COMPLETE={name}_source windlass" in line
    elif name == "bash":
        assert "_windlass_completion" in shell("bash", "--norc", "-c", f"{line}; complete -p windlass")
    else:
        shell(name, "-c", line)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        (["quues"], "No such command 'quues'; did you mean queues?"),
        (["worker", "shop:app", "--frob"], "No such option '--frob'."),
    ],
)
def test_a_word_that_does_not_exist_is_refused(typed: list[str], said: str) -> None:
    result = windlass(*typed)
    assert result.exit_code == 2
    assert said in " ".join(result.stderr.split())
