"""The public face: what `import windlass` gives, and what it and the command do not import until needed."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import click
import pytest

import windlass
from windlass.cli import VERBS, main

HEAVY = (
    "apsw",
    "asyncio",
    "asyncpg",
    "cronsim",
    "importlib.metadata",
    "jinja2",
    "msgspec",
    "prometheus_client",
    "rich",
    "starlette",
    "uvicorn",
    "windlass.app",
    "windlass.store",
    "windlass.worker",
)
"""What takes long to import, and what brings it along."""


def imported_by(code: str) -> set[str]:
    """Every module that a fresh Python imports for this, without what `site` brought."""
    script = f"""
import contextlib, io, sys
before = set(sys.modules)
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    {code}
print(*sorted(set(sys.modules) - before))
"""
    ended = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ended.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import windlass",
        "from windlass.cli import main; main(['--version'])",
        "from windlass.cli import main; main(['--help'])",
        "from windlass.cli import main; main([])",
    ],
)
def test_what_starts_imports_nothing_that_it_does_not_need(code: str) -> None:
    found = imported_by(code)
    assert "windlass" in found
    assert found.isdisjoint(HEAVY)


def test_the_app_imports_no_driver_and_nothing_that_draws() -> None:
    found = imported_by("from windlass import Windlass; Windlass()")
    drivers = {"apsw", "asyncpg", "click", "jinja2", "prometheus_client", "rich", "starlette", "uvicorn"}
    assert found.isdisjoint(drivers | {"windlass.cli", "windlass.chunks", "windlass.web", "windlass.worker"})


def test_the_top_holds_only_what_users_import() -> None:
    top = {path.stem for path in Path(windlass.__file__).parent.glob("*.py")}
    assert top == {"__init__", "__main__", *windlass._MODULES}


def declared() -> Iterator[tuple[str, str]]:
    """The names and homes that type checkers see."""
    tree = ast.parse(Path(windlass.__file__).read_text("utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.startswith("windlass."):
            yield from ((each.name, node.module.removeprefix("windlass.")) for each in node.names)


def test_type_checkers_and_python_see_the_same_names() -> None:
    homes = {(name, home) for home, names in windlass._HOMES.items() for name in names}
    assert set(declared()) == homes
    assert {name for name, _ in homes} | {"__version__"} == set(windlass.__all__)
    for name, home in homes:
        assert getattr(windlass, name) is getattr(import_module(f"windlass.{home}"), name)
    assert set(windlass.__all__) <= set(dir(windlass))


def test_modules_of_the_face_can_be_reached_and_others_cannot_be_made_up() -> None:
    assert windlass.errors.WindlassError is windlass.WindlassError
    with pytest.raises(AttributeError, match="has no attribute 'Windlas'"):
        getattr(windlass, "Windlas")  # noqa: B009 - mypy refuses the plain spelling


@pytest.mark.parametrize("name", VERBS)
def test_every_verb_is_where_the_list_says(name: str) -> None:
    with click.Context(main) as context:
        command = main.get_command(context, name)
    assert command is not None
    assert command.name == name
    assert command.hidden == (not VERBS[name][1])


def test_every_line_of_help_fits() -> None:
    assert max(len(line) for _, line in VERBS.values()) <= 60
    assert all(line.endswith(".") for _, line in VERBS.values() if line)
