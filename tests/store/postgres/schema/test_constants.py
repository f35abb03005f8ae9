"""Constants that SQL and Python share stand in Python, and SQL names them."""

import re
from pathlib import Path
from typing import Any, get_args

import pytest

from windlass.core import cron
from windlass.core.flow import admission, caps
from windlass.store.postgres.schema import constants, sources

FOLDER = Path(sources.__file__).parent.parent
CODE = {
    path.name: re.sub(r"--.*", "", path.read_text("utf-8"))
    for path in sorted((FOLDER / "sql").rglob("*.sql"))
}
NAMES = {found[0] for code in CODE.values() for found in constants.NAMED.finditer(code)}
WORDS = re.compile(r"(?:'[a-z_]+', )+'[a-z_]+'")
ELSEWHERE = {"0.001", "0.05", "0.1", "1", "10", "1000", "120", "30", "300", "4", "44", "5", "64", "86400"}
"""Numbers that stand for other things, too, so that nobody can tell from SQL where they mean the constant."""


def test_no_number_of_python_stands_in_sql() -> None:
    numbers = {constants.with_constants(name): name for name in NAMES} | {"3600": ":caps.LONGEST"}
    again = {
        f"{file}: {number} is {name}"
        for file, code in CODE.items()
        for number, name in numbers.items()
        if re.search(rf"(?<![\w.]){re.escape(number)}(?![\w.])", code) and number not in ELSEWHERE
    }
    assert again == {"budgets_buckets.sql: 3600 is :caps.LONGEST", "expiry.sql: 3600 is :caps.LONGEST"}


def test_no_list_of_words_of_python_stands_in_sql() -> None:
    lists = {name: constants.with_constants(name) for name in NAMES}
    words = {name: set(text.split(", ")) for name, text in lists.items() if WORDS.fullmatch(text)}
    assert len(words) > 3
    again = {
        f"{file}: {found[0]} has {name}"
        for file, code in CODE.items()
        for found in WORDS.finditer(code)
        for name, each in words.items()
        if each <= set(found[0].split(", "))
    }
    assert not again


def test_sql_names_something_of_each_module() -> None:
    assert {name[1:].partition(".")[0] for name in NAMES} == set(constants.MODULES)


@pytest.mark.parametrize(
    ("column", "words"),
    [
        ("cap_per", caps.Period),
        ("pressure", admission.Pressure),
        ("missed", cron.Missed),
        ("overlap", cron.Overlap),
    ],
)
def test_a_table_allows_the_words_of_python(column: str, words: Any) -> None:
    [allowed] = re.findall(rf"\({column} IN \(([^)]*)\)", sources.migrations()[-1][1])
    assert allowed == ", ".join(f"'{word}'" for word in get_args(words))


def test_each_period_of_a_budget_has_its_length() -> None:
    assert tuple(caps.LONGEST) == caps.PERIODS
    assert constants.with_constants(":caps.LONGEST").startswith("WHEN 'hour' THEN 3600 WHEN 'day' THEN 97200")


def test_sql_can_name_no_text() -> None:
    with pytest.raises(TypeError, match="SQL can name no"):
        constants.with_constants(":names.InvalidName")
