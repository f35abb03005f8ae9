"""Python and SQL of every page is run, and what else is fenced is read by what it is written in.

Python runs block after block in one module, as a reader would type it, on the store that the page asks for.
A block whose first line names a file (`# shop.py`) is that module; a later one with the same first line goes
on there. SQL runs on PostgreSQL in one transaction, which is rolled back. Lines that call `windlass` are read
by the real commands, and so are those in the prose; shell blocks are not run. Commands of a `console` between
Python blocks are run, and what they print is compared with the page, numbers aside. What cannot be run says
why, and is still compiled.
"""

import ast
import asyncio
import inspect
import json
import re
import shlex
import sys
import time
import tomllib
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import click
import psycopg
import pytest
import yaml  # type: ignore[import-untyped]
from click.testing import CliRunner
from opentelemetry import trace

from tests.docs.pages import PAGES, ROOT, Block, answers, blocks, name_of, outline, prose, store_of
from windlass import Windlass
from windlass.cli import main

LANGUAGES = {"python", "sh", "console", "sql", "toml", "yaml", "json", "text", "html", "nginx", ""}
FILE = re.compile(r"# (\w+)\.py\b")
MAX_NOT_RUN = 8
"""Blocks of all pages that are not run. Rather make one run than raise this."""


def having(*languages: str) -> list[Any]:
    return [pytest.param(page, id=name_of(page)) for page in PAGES if blocks(page, *languages)]


def where(page: Path, block: Block) -> str:
    return f"{name_of(page)}, line {block.line}"


# -- Python -------------------------------------------------------------------------------------------------


@pytest.fixture
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[str], str]:
    """The URL of a store of each kind."""

    def url(kind: str) -> str:
        if kind == "postgres":
            return str(request.getfixturevalue("pg_dsn"))
        return {"memory": "sqlite:///:memory:", "sqlite": f"sqlite:///{tmp_path.as_posix()}/windlass.db"}[
            kind
        ]

    return url


@pytest.fixture
def reader(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[asyncio.Runner]:
    """A loop, an empty directory to be in, and nothing that outlasts the page."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    # The global one can be set only once in a process, and other tests are there as well.
    monkeypatch.setattr(trace, "set_tracer_provider", lambda provider: None)
    with monkeypatch.context() as patch:
        patch.setenv("TZ", "UTC")  # which pages show; Django sets one of its own
        time.tzset()
        with asyncio.Runner() as runner:
            yield runner
    time.tzset()


@pytest.mark.parametrize("page", having("python"))
def test_the_python_of_a_page_runs(
    page: Path, database: Callable[[str], str], reader: asyncio.Runner, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = database(store_of(page))
    monkeypatch.setenv("WINDLASS_DATABASE_URL", url)
    monkeypatch.setenv("DATABASE_URL", url)
    module = ModuleType("page")
    monkeypatch.setitem(sys.modules, "page", module)
    try:
        for block in blocks(page, "python", "console"):
            if block.language == "console":
                compare(block, where(page, block))
                continue
            code = compiled(block.text, where(page, block), block.line)
            if block.not_run is None:
                run(block, code, module, monkeypatch, reader)
    finally:
        for value in list(vars(module).values()):
            if isinstance(value, Windlass):
                value.close()


def compiled(text: str, name: str, line: int) -> Any:
    """Python that may await at its top level; its lines are numbered as in the page."""
    tree = ast.increment_lineno(ast.parse(text, name), line - 1)
    return compile(tree, name, "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)


def run(
    block: Block, code: Any, page: ModuleType, monkeypatch: pytest.MonkeyPatch, reader: asyncio.Runner
) -> None:
    """In the page's module, or in that of the file which the first line names; the page knows its names."""
    module = page
    if named := FILE.match(block.text):
        module = file_of(named[1], block.text, monkeypatch)
    awaited = eval(code, vars(module))  # noqa: S307 - it is our own text
    if inspect.iscoroutine(awaited):
        reader.run(awaited)
    if module is not page:
        vars(page).update({name: value for name, value in vars(module).items() if not name.startswith("__")})


def compare(block: Block, name: str) -> None:
    """Run the `windlass` commands of a console, and look for the lines that the page shows, numbers aside."""
    for command, shown in answers(block):
        program, *words = shlex.split(command)
        if program == "windlass":
            done = CliRunner().invoke(main, words, env={"COLUMNS": "110"})
            assert done.exit_code == 0, f"{name}: {command}: {done.output}"
            printed = iter([outline(line) for line in done.stdout.splitlines()])
            for line in map(outline, shown):
                assert line == "…" or line in printed, f"{name}: {command}: {line!r} is not in {done.stdout}"


def file_of(name: str, text: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    path = Path(f"{name}.py")
    if not path.exists():
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    with path.open("a", encoding="utf-8") as file:
        file.write(text)
    return sys.modules[name]


# -- SQL ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", having("sql"))
def test_the_sql_of_a_page_runs(page: Path, pg_dsn: str) -> None:
    with psycopg.connect(pg_dsn) as connection:
        for block in blocks(page, "sql"):
            if block.not_run is None:
                try:
                    connection.execute(block.text.encode())
                except psycopg.Error as error:
                    raise AssertionError(f"{where(page, block)}: {error}") from error
        connection.rollback()


# -- commands -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", having("sh", "console"))
def test_the_commands_of_a_page_exist(page: Path) -> None:
    for block in blocks(page, "sh", "console"):
        for words in commands(block):
            try:
                parse(words)
            except click.ClickException as error:
                message = f"{where(page, block)}: windlass {shlex.join(words)}: {error.format_message()}"
                raise AssertionError(message) from error


def commands(block: Block) -> Iterator[list[str]]:
    """What follows `windlass` in each command of a block."""
    text = block.text.replace("\\\n", " ")
    lines = text.splitlines()
    if block.language == "console":  # what does not begin with a prompt is an answer
        lines = [line.removeprefix("$ ") for line in lines if line.startswith("$ ")]
    for line in lines:
        lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
        lexer.whitespace_split = True
        words: list[str] = []
        for word in [*lexer, ";"]:
            if set(word) <= set("();<>|&"):
                yield from called(words)
                words = []
            else:
                words.append(word)


def called(words: list[str]) -> Iterator[list[str]]:
    for place, word in enumerate(words):
        if word == "windlass" or word.endswith("/windlass"):
            if not any(each in ("pip", "install") for each in words[:place]):
                yield words[place + 1 :]
            return


def parse(words: list[str]) -> None:
    """Let the command read its words, without doing anything. Raises ClickException."""
    command: click.Command = main
    rest = list(words)
    while isinstance(command, click.Group):
        if not rest or rest[0] in ("--help", "--version"):
            return
        name = rest.pop(0)
        found = command.get_command(click.Context(command), name)
        if found is None:
            raise click.UsageError(f"there is no command {name!r}")
        command = found
    if "--help" not in rest:
        with click.Context(command, info_name=command.name) as context:
            command.parse_args(context, rest)


@pytest.mark.parametrize(
    "line",
    ["windlass nothing", "A=1 windlass queue set mail --nothing 3 | cat", "true && windlass job show abc"],
)
def test_a_command_that_does_not_exist_is_found(line: str) -> None:
    (words,) = commands(Block("sh", f"{line}     # as told\n", 1))
    with pytest.raises(click.UsageError):
        parse(words)


@pytest.mark.parametrize("page", [pytest.param(page, id=name_of(page)) for page in PAGES])
def test_the_commands_in_prose_exist(page: Path) -> None:
    """`windlass queue set mail --max-depth 9`: the verbs are there, and so are the options."""
    for span in re.findall(r"`windlass ([^`]+)`", prose(page)):
        command: click.Command = main
        words = span.split()
        while isinstance(command, click.Group) and words and re.fullmatch(r"[a-z]+", words[0]):
            found = command.get_command(click.Context(command), words.pop(0))
            assert found is not None, f"{name_of(page)}: there is no `windlass {span}`"
            command = found
        known = {name for option in command.params for name in (*option.opts, *option.secondary_opts)}
        for option in re.findall(r"(?<!\S)(--[a-z-]+)", " ".join(words)):
            assert option in known | {"--help", "--version"}, f"{name_of(page)}: `windlass {span}`: {option}"


# -- data ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", having("toml", "yaml", "json"))
def test_the_data_of_a_page_can_be_read(page: Path) -> None:
    readers: dict[str, Callable[[str], Any]] = {
        "toml": tomllib.loads,
        "yaml": lambda text: list(yaml.safe_load_all(text)),
        "json": json.loads,
    }
    for block in blocks(page, *readers):
        if block.not_run is None:
            assert readers[block.language](block.text), where(page, block)


def test_every_block_says_what_it_is_written_in() -> None:
    for page in PAGES:
        for block in blocks(page):
            assert block.language in LANGUAGES, f"{where(page, block)}: {block.language}? Write text."


def test_few_blocks_are_not_run() -> None:
    left = [where(page, block) for page in PAGES for block in blocks(page) if block.not_run]
    assert len(left) <= MAX_NOT_RUN, left


def test_every_page_is_found() -> None:
    assert {ROOT / "README.md", ROOT / "docs" / "README.md", ROOT / "docs" / "tutorial.md"} <= set(PAGES)
