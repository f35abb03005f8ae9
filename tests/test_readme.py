"""README.md promises exactly two set-up commands; the second is what `.ci/run` runs, once it has seen to a
browser and a stock PostgreSQL, and before what it leaves out and other Pythons."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def set_up_commands(text: str) -> list[str]:
    """The lines inside fenced blocks that make a virtualenv."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, flags=re.MULTILINE | re.DOTALL)
    return [line for block in blocks for line in block.splitlines() if "-m venv" in line]


def test_readme_has_two_set_up_commands_and_ci_runs_the_second() -> None:
    commands = set_up_commands((ROOT / "README.md").read_text(encoding="utf-8"))
    assert len(commands) == 2, commands
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8").splitlines()
    run = [line for line in script if line and not line.startswith(("#", "set ", "cd "))]
    browser, postgres, command, rest, matrix = run
    assert browser.startswith("bash .ci/browser || ")  # it may fail, and brings nothing but a browser
    assert postgres.startswith("bash .ci/postgres || ")  # the same for a stock server
    assert command == commands[1]
    assert rest == ".venv/bin/python -m tests --rest"
    assert matrix == ".venv/bin/python -m tests.matrix"


def test_readme_names_files_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", text):
        assert (ROOT / target).exists(), f"README.md links to {target}, which is not there"
