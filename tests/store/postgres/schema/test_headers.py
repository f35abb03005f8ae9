"""The header of a SQL function names its callers, who call it, and its plan. Text alone; no database."""

import re
from pathlib import Path

import pytest

from windlass.store.postgres.schema import plans, sources

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
"""`db.value("heartbeat", …)` and `f"SELECT {schema}.enqueue_one(…)"`."""

READS = re.compile(r"(?:\b(?:FROM|JOIN|UPDATE|INTO|USING|TABLE)|,)\s+(?:ONLY )?windlass\.\w+(?![\w(])")
WRITTEN = re.compile(r"\bSET (\w+) =")
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


def made(header: str, rights: str = "STABLE") -> sources.Definition:
    """A function with this header."""
    signature = f"CREATE OR REPLACE FUNCTION windlass.f() RETURNS int\nLANGUAGE sql {rights}"
    text = f"-- {header}\n{signature} AS $$\n$$;"
    return sources.Definition("room", "FUNCTION", "f", header, text)


def body(name: str) -> str:
    """The body of a function."""
    return FUNCTIONS[name].text.partition(plans.signature_of(FUNCTIONS[name]))[2]


def bare() -> dict[str, str]:
    """The functions without settings, by name, with what their headers say instead of a plan."""
    found = {name: plans.plan_of(each) for name, each in FUNCTIONS.items()}
    return {name: plan for name, plan in found.items() if plan == plans.CALLERS or plan.startswith("none ")}


def test_a_plan_makes_the_settings() -> None:
    assert plans.with_settings(made("Plan: free.", "SECURITY DEFINER")).splitlines()[2:] == [
        "LANGUAGE sql SECURITY DEFINER SET search_path = pg_catalog, pg_temp",
        "SET jit = off AS $$",
        "$$;",
    ]
    assert plans.with_settings(made("Plan: generic, pinned, ordered.")).splitlines()[2:4] == [
        "LANGUAGE sql STABLE",
        "SET plan_cache_mode = force_generic_plan SET enable_seqscan = off SET enable_bitmapscan = off "
        "SET enable_sort = off SET jit = off AS $$",
    ]
    for plan in ("the caller's", "none (it reads nothing)"):
        assert " SET " not in plans.with_settings(made(f"Plan: {plan}."))


@pytest.mark.parametrize(
    ("header", "rights", "refusal"),
    [
        ("May call: worker. Lock: none.", "", "of f names 0 plans instead of one"),
        ("Plan: free. Plan: pinned.", "", "of f names 2 plans instead of one"),
        ("Plan: none.", "", "of f is 'none'; write some of free, generic"),
        ("Plan: pinned, quick.", "", "of f is 'pinned, quick'; write some of free, generic"),
        ("Plan: ordered, pinned.", "", "of f is 'ordered, pinned'; .* in this order"),
        ("Plan: the caller's.", "SECURITY DEFINER", "f runs with its owner's rights"),
        ("Plan: none (why not).", "SECURITY DEFINER", "f runs with its owner's rights"),
    ],
)
def test_a_function_without_a_plan_is_refused(header: str, rights: str, refusal: str) -> None:
    """Neither migrate nor `windlass sql` goes on, so that none can be forgotten."""
    with pytest.raises(AssertionError, match=refusal):
        plans.with_settings(made(header, rights))


def test_what_has_the_plan_of_its_caller_is_called_by_functions_alone() -> None:
    """A function that reads rows is planned under settings: its own, or those of what calls it. Views and the
    store's sessions have none."""
    real, left = called(), bare()
    reads = {name for name in left if READS.search(NOT_CODE.sub("", body(name)))}
    size = 0
    while size < len(reads):  # until no more are found that call one of them
        size = len(reads)
        reads |= {caller for name in reads for caller in real[name] if caller in left}
    outside = {
        name
        for name in reads
        if re.search(r"\b(the store|users|the owner|every role|migrate)\b", callers(name))
        or real[name] & VIEWS.keys()
    }
    assert sorted(name for name in outside if left[name] == plans.CALLERS) == []
    assert sorted(name for name in left if left[name] != plans.CALLERS) == sorted(outside)


def test_a_setting_that_is_written_out_is_explained() -> None:
    """No word makes it; how long a lock is waited for stands behind Lock."""
    written = {
        (name, setting)
        for name, each in FUNCTIONS.items()
        for setting in WRITTEN.findall(plans.signature_of(each))
    }
    assert {setting for _, setting in written} <= {"lock_timeout", "enable_mergejoin", "enable_indexscan"}
    switches = {(name, setting) for name, setting in written if setting.startswith("enable_")}
    assert [pair for pair in switches if pair[1] not in FUNCTIONS[pair[0]].header] == []
    assert [name for name, _ in written if name in bare()] == []
