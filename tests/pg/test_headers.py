"""The header of a SQL file names the callers of its function, and they call it. Text alone; no database."""

import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[2] / "src" / "windlass" / "store" / "postgres"
FILES = {path.stem: path.read_text(encoding="utf-8") for path in sorted((FOLDER / "sql").glob("*.sql"))}
FUNCTIONS = sorted(name for name in FILES if not name.startswith("view_"))
NOT_CODE = re.compile(r"'(?:[^']|'')*'|--[^\n]*")
CALL = re.compile(r"\bwindlass\.(\w+)\(")
OWN_NAME = re.compile(r"^CREATE OR REPLACE (?:FUNCTION|PROCEDURE) windlass\.\w+", re.MULTILINE)
CALLERS = re.compile(r"\bCallers: (.*?)\.(?= |$)")
IN_GENERAL = re.compile(r"(?:^|, )(?:every function|everything that|many\b|the functions of)")
"""Where there are too many to name them, the header says what they have in common."""
IN_PYTHON = re.compile(r'"(\w+)"|\}\.(\w+)\(')
"""`db.value("beat", …)` and `f"SELECT {schema}.enqueue_one(…)"`."""


def callers(name: str) -> str:
    """What the header says of who calls the function, on one line."""
    lines = FILES[name].partition("\nCREATE")[0].splitlines()
    (said,) = CALLERS.findall(" ".join(line.removeprefix("--").strip() for line in lines)) or [""]
    return str(said)


def named(said: str) -> set[str]:
    """The functions and views among them; other words (the store, users, when and why) are for readers."""
    items = {item.strip() for item in re.split(r"[,;:]", re.sub(r"\([^)]*\)", "", said))}
    views = {f"view_{item.removeprefix('the view ')}" for item in items if item.startswith("the view ")}
    return (items & set(FUNCTIONS)) | views


def called() -> dict[str, set[str]]:
    """Function → the files of functions and views that call it."""
    found: dict[str, set[str]] = {name: set() for name in FUNCTIONS}
    for caller, text in FILES.items():
        for name in CALL.findall(NOT_CODE.sub("", OWN_NAME.sub("", text))):
            if name in found and name != caller:
                found[name].add(caller)
    return found


def store_calls() -> set[str]:
    """The functions that the store's own code names: its Python, and its queries."""
    found: set[str] = set()
    for path in FOLDER.glob("*.py"):
        found.update(word for pair in IN_PYTHON.findall(path.read_text(encoding="utf-8")) for word in pair)
    for path in (FOLDER / "queries").glob("*.sql"):
        found.update(CALL.findall(NOT_CODE.sub("", path.read_text(encoding="utf-8"))))
    return found


def test_every_header_names_callers_and_a_lock() -> None:
    heads = {name: FILES[name].partition("\nCREATE")[0] for name in FUNCTIONS}
    assert [name for name in FUNCTIONS if not callers(name)] == []
    assert [name for name, head in heads.items() if not re.search(r"\b[Ll]ock", head)] == []


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
