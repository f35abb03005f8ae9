"""The faults that the mutation step plants, and that what could not be checked never counts as passed."""

import ast
import json
from pathlib import Path

import pytest

from tests.verify.figures import Figure, Verdict, exit_status, judged, table
from tests.verify.mutants import mutants, planted
from tests.verify.sql_mutants import sql_mutants
from tests.verify.sql_mutation import choose, key, verdicts, with_callers, within


def faults(folder: Path, code: str) -> list[str]:
    """The module, once with each of its faults."""
    path = folder / "module.py"
    path.write_text(code, encoding="utf-8")
    return [ast.unparse(planted(mutant)) for mutant in mutants(path)]


@pytest.mark.parametrize(
    ("code", "faulty"),
    [
        ("x = a < b", ["x = a <= b"]),
        ("x = a <= b < c", ["x = a < b < c", "x = a <= b <= c"]),
        ("x = a is b", ["x = a is not b"]),
        ("x += y", ["x -= y"]),
        ("x = a // b", ["x = a / b"]),
        ("x = a and (not b)", ["x = a or not b", "x = a and b"]),
        ("x = min(a, -b)", ["x = max(a, -b)", "x = min(a, b)"]),
        ("x = 1", ["x = 2"]),
        ("x = True", ["x = False"]),
        ("x = 'a'", ["x = 'other a'"]),
        ("x = a if b else c", ["x = a if not b else c"]),
        ("x = [a for a in b if a]", ["x = [a for a in b if not a]"]),
        ("f()", ["pass"]),
        ("raise ValueError('words')", ["pass"]),
    ],
)
def test_each_fault_is_planted_alone(code: str, faulty: list[str], tmp_path: Path) -> None:
    assert faults(tmp_path, code) == faulty


@pytest.mark.parametrize(
    "code",
    [
        '"""A docstring."""',
        "def f(a: 'int') -> Literal[1]: ...",
        "@cache(maxsize=1)\nclass A(B, frozen=True): ...",
        "Size: TypeAlias = int | str",
        "Missed = Literal['skip']",
        "x = f'{a} words'",
        "from a import b",
    ],
)
def test_what_no_test_should_see_is_left_alone(code: str, tmp_path: Path) -> None:
    assert faults(tmp_path, code) == []


def test_a_fault_knows_its_function(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text("A = 1\ndef f(b=2):\n    c = 3\n    return c\n", encoding="utf-8")
    assert [(each.line, each.body) for each in mutants(path)] == [
        (1, None),
        (2, (3, 4)),
        (3, (3, 4)),
        (4, (3, 4)),
    ]


def test_what_could_not_be_checked_has_not_passed() -> None:
    good = judged("a", "b", figure="1", bound="1", holds=True)
    bad = judged("a", "b", figure="1", bound="0", holds=False)
    unknown = Figure("audit", "holes", "unknown", "0", Verdict.UNCHECKED)
    assert [exit_status(each) for each in ([good], [good, unknown], [unknown, bad])] == [0, 2, 1]
    assert "COULD NOT BE CHECKED" in table([good, unknown])


@pytest.mark.parametrize(
    ("body", "faulty"),
    [
        ("SELECT 1 FROM windlass.a FOR UPDATE SKIP LOCKED;", ["lock: FOR UPDATE SKIP LOCKED"]),
        ("PERFORM windlass.lane_lock(l);", ["lock: PERFORM windlass.lane_lock(l);"]),
        ("PERFORM windlass.worker_fence(w);", ["fence: PERFORM windlass.worker_fence(w);"]),
        ("DELETE FROM windlass.a WHERE b = 'AND c';", ["write: DELETE FROM windlass.a WHERE b = 'AND c';"]),
        (
            "PERFORM f(x) WHERE a AND (b OR c) AND d = 'e';",
            ["condition: AND (b OR c)", "condition: AND d = 'e'"],
        ),
        ("PERFORM f(x) WHERE a BETWEEN 1 AND 2 AND b;", ["condition: AND b"]),
        ("IF a THEN b := 1; END IF;", ["branch: a"]),
        ("-- AND this is prose\n", []),
    ],
)
def test_each_fault_in_sql_is_planted_alone(body: str, faulty: list[str], tmp_path: Path) -> None:
    path = tmp_path / "f.sql"
    path.write_text(f"CREATE FUNCTION f() AS $$\nBEGIN\n    {body}\nEND $$;\n", encoding="utf-8")
    found = sql_mutants(path)
    assert [f"{mutant.kind}: {mutant.what}" for mutant in found] == faulty
    assert all(mutant.planted() != path.read_text(encoding="utf-8") for mutant in found)


def test_the_tests_of_a_function_are_those_about_it_and_from_every_file() -> None:
    """A test that calls many functions comes late, and a file with many tests leaves room for others."""
    one = {"a.py::many": 0.1, "b.py::long": 58.0, "a.py::about_it": 1.0, "b.py::longer": 59.5}
    heard = {"f": one, "g": {"a.py::many": 0.1}, "h": {"c.py::only": 70.0}}
    assert {name: [*tests] for name, tests in choose(heard).items()} == {
        "f": ["a.py::about_it", "b.py::long", "a.py::many"],
        "g": ["a.py::many"],
        "h": ["c.py::only"],
    }
    assert within(one, 2.0) == {"a.py::many": 0.1, "a.py::about_it": 1.0}


def test_a_function_that_says_nothing_has_the_tests_of_its_callers() -> None:
    texts = {"f": "SELECT windlass.g()", "g": "SELECT windlass.h()", "h": "SELECT 1", "alone": "SELECT 2"}
    heard = {"f": {"a.py::test": 1.0}}
    assert with_callers(heard, texts) == dict.fromkeys("fgh", heard["f"])


def test_a_verdict_is_kept_until_its_function_changes(tmp_path: Path) -> None:
    room, file = tmp_path / "room.sql", tmp_path / "verdicts.jsonl"
    one, other = (
        f"CREATE FUNCTION windlass.{name}() RETURNS void AS $$\nBEGIN\n    UPDATE windlass.{name};\nEND $$;"
        for name in ("one", "other")
    )
    room.write_text(f"-- A room.\n\n{one}\n\n{other}\n", encoding="utf-8")
    first, second = sql_mutants(room)
    rows = [{"key": key(each), "noticed": each is first, "seconds": 12.0} for each in (first, second)]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    assert verdicts(file, 12.0) == {key(first): True, key(second): False}
    assert verdicts(file, 60.0) == {key(first): True}, "a survivor may be tried with more tests"
    room.write_text(f"-- A larger room.\n\n{one}\n\n{other.replace('BEGIN', 'BEGIN  ')}\n", encoding="utf-8")
    again, changed = sql_mutants(room)
    assert key(again) in verdicts(file)
    assert key(changed) not in verdicts(file)
