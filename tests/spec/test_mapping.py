"""`spec/README.md` says what the models say, and names only SQL that exists."""

import re

import pytest

from tests.spec.test_models import CONFIGS, VARIANTS
from tests.spec.tlc import SPEC

PAGE = (SPEC / "README.md").read_text(encoding="utf-8")
SQL = SPEC.parent / "src" / "windlass" / "store" / "postgres" / "sql"
CREATED = re.compile(r"CREATE OR REPLACE (?:FUNCTION|PROCEDURE) windlass\.(\w+)\s*\(")
NAMED = re.compile(r"`windlass\.(\w+)`")


def table(heading: str) -> list[list[str]]:
    """The rows of the last table under a heading of the page, without its header."""
    section = PAGE.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("|")]
    return rows[max(i for i, row in enumerate(rows) if row[0].startswith("---")) + 1 :]


def names(cell: str) -> list[str]:
    return re.findall(r"`([\w.]+)`", cell)


def module(name: str) -> str:
    """A module without its comments."""
    text = (SPEC / f"{name}.tla").read_text(encoding="utf-8")
    return re.sub(r"\(\*.*?\*\)|\\\*[^\n]*", "", text, flags=re.DOTALL)


def definition(text: str, name: str) -> str:
    """The body of a definition: up to the next one that starts a line."""
    body = text.split(f"\n{name} ==", 1)[1]
    return re.split(r"\n(?=\w[^\n]*==)", body, maxsplit=1)[0]


def first_column(heading: str) -> list[str]:
    return sorted(name for row in table(heading) for name in names(row[0]))


def test_the_page_names_only_sql_that_exists() -> None:
    texts = [file.read_text(encoding="utf-8") for file in SQL.rglob("*.sql")]
    created = {name for text in texts for name in CREATED.findall(text)}
    assert set(NAMED.findall(PAGE)) - created == set()


def test_every_action_stands_in_the_table() -> None:
    bounds = {"Producers", "Workers", "Rescuers", "Segments"}
    actions = set(re.findall(r"\b[A-Z]\w+", definition(module("Logs"), "Next"))) - bounds
    assert first_column("Actions and their SQL") == sorted(actions)


def test_every_action_of_a_wait_stands_in_its_table() -> None:
    actions = set(re.findall(r"\b[A-Z]\w+", definition(module("Wait"), "Next"))) - {"Senders"}
    assert first_column("Actions of a wait and their SQL") == sorted(actions)


@pytest.mark.parametrize(
    "heading",
    ["Actions and their SQL", "Actions of a wait and their SQL", "Transactions and their locks"],
)
def test_every_row_names_sql_or_says_that_there_is_none(heading: str) -> None:
    for row in table(heading):
        assert NAMED.search(row[1]) or row[1].strip() == "–", row


def test_every_transaction_of_the_lock_model_stands_in_the_table() -> None:
    programs = re.findall(r"(\w+) \|->\s*(?:<<|IF|LET)", definition(module("Locks"), "Programs"))
    assert first_column("Transactions and their locks") == sorted(programs)


def test_every_broken_rule_stands_in_the_table_and_is_checked() -> None:
    found = [(names(row[0])[0], names(row[1])[0]) for row in table("Broken rules")]
    assert found == [(broken.rule, broken.invariant) for broken in VARIANTS]
    written = {"none"}
    for file in SPEC.glob("*.tla"):
        text = module(file.stem)
        written |= set(re.findall(r'Broken (?:=|#) "(\w+)"', text))
        for several in re.findall(r"Broken \\(?:not)?in \{([^}]*)\}", text):
            written |= set(re.findall(r'"(\w+)"', several))
    assert written == {"none", *(broken.rule for broken in VARIANTS)}


def test_every_invariant_stands_in_the_table() -> None:
    checked: set[str] = set()
    for name in CONFIGS:
        checked |= set((SPEC / f"{name}.cfg").read_text(encoding="utf-8").split("INVARIANTS")[1].split())
    assert first_column("What must always be true") == sorted(checked)


def test_every_configuration_stands_in_the_table() -> None:
    assert first_column("How the store is modelled") == CONFIGS
