"""What a shell completes: verbs, options and names of queues, after the line that the reference gives."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cli.kit import Desk

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
