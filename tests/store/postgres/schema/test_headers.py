"""The header of a SQL function names its callers, and they call it. Text alone; no database."""

import re
from pathlib import Path

from windlass.store.postgres.schema import sources

FOLDER = Path(sources.__file__).parent.parent
FUNCTIONS = {each.name: each for each in sources.definitions() if each.kind != "VIEW"}
VIEWS = {f"the view {each.name}": each for each in sources.definitions() if each.kind == "VIEW"}
NOT_CODE = re.compile(r"'(?:[^']|'')*'|--[^\n]*")
CALL = re.compile(r"\bwindlass\.(\w+)\(")
OWN_NAME = re.compile(r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) windlass\.\w+", re.MULTILINE)
CALLERS = re.compile(r"\bCallers: (.*?)\.(?= |$)")
IN_GENERAL = re.compile(r"(?:^|, )(?:every function|everything that|many\b|the functions of)")
"""Where there are too many to name them, the header says what they have in common."""
PARAGRAPH = re.compile(r"-- ==== .* ====$|-- :\w+\n|-- .*?\nCREATE OR", re.DOTALL)
IN_PYTHON = re.compile(r'"(\w+)"|\}\.(\w+)\(')
"""`db.value("beat", …)` and `f"SELECT {schema}.enqueue_one(…)"`."""

FUNCTION_IN_PYTHON = re.compile(r'(?:\b_?db|schemas|database|db)\.(?:value|call|rows)\(\s*"(\w+)"')
STATEMENT_IN_PYTHON = re.compile(r'\bquery\(\s*"(\w+)"')


def callers(name: str) -> str:
    """What the header says of who calls the function, on one line."""
    (said,) = CALLERS.findall(FUNCTIONS[name].header) or [""]
    return str(said)


def named(said: str) -> set[str]:
    """The functions and views among them; other words (the store, users, when and why) are for readers."""
    items = {item.strip() for item in re.split(r"[,;:]", re.sub(r"\([^)]*\)", "", said))}
    return items & (FUNCTIONS.keys() | VIEWS.keys())


def called() -> dict[str, set[str]]:
    """Function → the functions and views that call it."""
    found: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
    for caller, definition in (FUNCTIONS | VIEWS).items():
        for name in CALL.findall(NOT_CODE.sub("", OWN_NAME.sub("", definition.text))):
            if name in found and name != caller:
                found[name].add(caller)
    return found


def store_calls() -> set[str]:
    """The functions that the store's own code names: its Python, and its statements."""
    found: set[str] = set()
    for path in FOLDER.rglob("*.py"):
        found.update(word for pair in IN_PYTHON.findall(path.read_text(encoding="utf-8")) for word in pair)
    for statement in sources.statements().values():
        found.update(CALL.findall(NOT_CODE.sub("", statement)))
    return found


def test_what_python_names_is_there() -> None:
    """A name that is gone would show only when its call is made."""
    text = "".join(path.read_text(encoding="utf-8") for path in FOLDER.rglob("*.py"))
    assert set(FUNCTION_IN_PYTHON.findall(text)) - FUNCTIONS.keys() == set()
    assert set(STATEMENT_IN_PYTHON.findall(text)) == sources.statements().keys()


def test_every_header_names_callers_and_a_lock() -> None:
    assert [name for name in FUNCTIONS if not callers(name)] == []
    assert [name for name, each in FUNCTIONS.items() if not re.search(r"\b[Ll]ock", each.header)] == []


def test_every_header_says_who_may_call_the_function() -> None:
    """[rule 11] Grants are made from it. Nobody may but the owner, or a worker may and perhaps others."""
    odd = {
        name: each.may_call
        for name, each in FUNCTIONS.items()
        if each.may_call != {"owner"} and not {"worker"} <= each.may_call <= {"worker", "producer", "reader"}
    }
    assert odd == {}


def test_every_paragraph_of_a_room_is_a_definition_or_a_heading() -> None:
    """What stands behind an empty line inside of a function would silently not be loaded."""
    for path in [*(FOLDER / "sql").rglob("*.sql"), FOLDER.parent / "moving" / "postgres.sql"]:
        _intro, *paragraphs = path.read_text(encoding="ascii").rstrip("\n").split("\n\n")
        assert [text for text in paragraphs if not PARAGRAPH.match(text)] == [], path.name
        made = [text for text in paragraphs if "\nCREATE OR" in text]
        assert all(text.endswith(";") and text.count("\nCREATE OR") == 1 for text in made), path.name


def test_whoever_a_header_names_calls_the_function() -> None:
    real = called()
    wrong = {name: sorted(named(callers(name)) - real[name]) for name in FUNCTIONS}
    assert {name: strangers for name, strangers in wrong.items() if strangers} == {}


def test_whoever_calls_a_function_is_named_in_its_header() -> None:
    real = called()
    missing = {
        name: sorted(real[name] - named(callers(name)))
        for name in FUNCTIONS
        if not IN_GENERAL.search(callers(name))
    }
    assert {name: left_out for name, left_out in missing.items() if left_out} == {}


def test_the_store_calls_what_says_so_and_somebody_calls_the_rest() -> None:
    """What nobody calls, in SQL or from the store, is for users, or should leave."""
    used, real = store_calls(), called()
    said = {name for name in FUNCTIONS if "the store" in callers(name)}
    by_others = ("users", "the owner", "every role", "the trigger", "migrate")
    idle = {name for name in FUNCTIONS if not real[name] and not callers(name).startswith(by_others)}
    assert sorted(said - used) == []
    assert sorted(idle - said) == []
