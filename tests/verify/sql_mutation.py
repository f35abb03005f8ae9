"""The step that asks whether the tests would notice a fault in the SQL of the PostgreSQL store: a lock, a
fence, a condition or a write that is missing. It plants each fault of `sql_mutants.py` in a copy of the
package and runs the tests that call the function. What survives is listed with its line.

    python -m tests.verify sql-mutation                         # all: hours
    python -m tests.verify sql-mutation --only retry_many       # one function

Which tests call a function is learned first, from a copy whose functions say their name to the server's log.
Each verdict is written to `.sql-mutants.jsonl` as it falls: a run that was ended goes on there the next time,
and tries only functions anew that have changed since.
A survivor is a place to look, not a verdict: some locks matter only against schedules that no test forces,
and some conditions only spare work.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from itertools import accumulate, zip_longest
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, Figure, judged, say
from tests.verify.sql_mutants import MADE, SqlMutant, sql_mutants
from windlass.store.postgres.schema.sources import definitions

STEP: Final = "sql-mutation"
FUNCTIONS: Final = Path("windlass/store/postgres/sql")
TESTS: Final = ("tests/store/postgres", "tests/conformance")
VERDICTS: Final = ROOT / ".sql-mutants.jsonl"
QUIET: Final = ("-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist")
LEAST: Final = 60.0
ENOUGH: Final = 40.0
"""Seconds of tests for one mutant."""


def check(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """The score over all functions, or over the named ones."""
    every = [
        mutant
        for path in sorted((ROOT / "src" / FUNCTIONS).rglob("*.sql"))
        for mutant in sql_mutants(path)
        if not only or mutant.function in only
    ]
    say(f"{len(every)} mutants; learning which tests call which function")
    calls = learn()
    say(f"{len(calls)} functions are called by tests")
    began, known = time.monotonic(), verdicts()
    say(f"{sum(key(mutant) in known for mutant in every)} of them were tried before")

    def tried(mutant: SqlMutant) -> bool:
        name = key(mutant)
        if name not in known:
            known[name] = _try(mutant, calls)
            keep(name, mutant, known[name])
        return known[name]

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        found = list(pool.map(tried, every))
    survivors = [mutant for mutant, noticed in zip(every, found, strict=True) if not noticed]
    say(f"tried in {time.monotonic() - began:.0f} s; survivors:")
    for mutant in survivors:
        say(f"    {mutant.path.name}:{mutant.line}  {mutant.kind}: {mutant.what[:140]}")
    if details is not None:
        details[STEP] = [asdict(each) | {"path": each.path.name} for each in survivors]
    score = 100 * (len(every) - len(survivors)) / max(1, len(every))
    return [
        judged(
            STEP,
            "faults in SQL found by tests/store/postgres and tests/conformance",
            figure=f"{score:.1f} % of {len(every)}",
            bound=f"≥ {LEAST:.0f} %",
            holds=score >= LEAST,
        )
    ]


def key(mutant: SqlMutant) -> str:
    """Return what tells this mutant from others, also from those of an earlier text of its function."""
    text = mutant.path.read_text(encoding="utf-8")
    begin, end = text.rfind("\n\n", 0, mutant.begin), text.find("\n\n", mutant.end)
    function = text[begin : mutant.begin] + f"<{mutant.to}>" + text[mutant.end : end]
    return hashlib.sha256(function.encode()).hexdigest()[:20]


def verdicts(file: Path = VERDICTS) -> dict[str, bool]:
    """Return which mutants were tried, and whether a test noticed them."""
    if not file.exists():
        return {}
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {row["key"]: row["noticed"] for row in rows}


def keep(name: str, mutant: SqlMutant, noticed: bool, file: Path = VERDICTS) -> None:
    """Write down a verdict. A line is one write, so threads do not tear each other's."""
    row = {"key": name, "noticed": noticed, "at": f"{mutant.path.name}:{mutant.line}", "what": mutant.what}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(row) + "\n")


def learn() -> dict[str, list[str]]:
    """Return the tests to try by function; kept for the next run of the same tree. A test that fails without
    a fault is left out, and named."""
    kept = Path(tempfile.gettempdir()) / f"windlass-sql-calls-{_fingerprint()}.json"
    if kept.exists():
        known: dict[str, list[str]] = json.loads(kept.read_text(encoding="utf-8"))
        return known
    with tempfile.TemporaryDirectory() as folder:
        for path in (copy(Path(folder)) / FUNCTIONS).rglob("*.sql"):
            found = [_telling(paragraph) for paragraph in path.read_text(encoding="utf-8").split("\n\n")]
            path.write_text("\n\n".join(found), encoding="utf-8")
        answer = Path(folder) / "calls.json"
        wanted = [*TESTS, "-k", "not memory and not sqlite and not postgres16 and not stock"]
        plugin = ["-p", "tests.verify.sql_calls"]
        done = _pytest(Path(folder), [*wanted, *plugin, "-rfE"], {"SQL_CALLS": str(answer)})
        if not answer.exists():
            raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]}")
        heard: dict[str, dict[str, float]] = json.loads(answer.read_text(encoding="utf-8"))
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    if failed:
        say(f"left out, since they fail without a fault: {', '.join(sorted(failed))}")
    for tests in heard.values():
        for test in failed & tests.keys():
            del tests[test]
    calls = choose({name: tests for name, tests in heard.items() if tests})
    kept.write_text(json.dumps(calls), encoding="utf-8")
    return calls


def choose(heard: dict[str, dict[str, float]]) -> dict[str, list[str]]:
    """Choose at most ENOUGH seconds of the tests that call a function: one of each file in turn, those that
    call the fewest functions first, since they are about this one."""
    calls = Counter(test for tests in heard.values() for test in tests)
    chosen: dict[str, list[str]] = {}
    for name, seconds in heard.items():
        files: dict[str, list[str]] = {}
        for test in sorted(seconds, key=lambda each: (calls[each], seconds[each])):
            files.setdefault(test.partition("::")[0], []).append(test)
        turns = [test for turn in zip_longest(*files.values()) for test in turn if test is not None]
        spent = accumulate(seconds[test] for test in turns)
        few = [test for test, so_far in zip(turns, spent, strict=True) if so_far <= ENOUGH]
        chosen[name] = few or turns[:1]
    return chosen


def _fingerprint() -> str:
    """Changes with every test, and with every function."""
    digest = hashlib.sha256()
    for folder in (*TESTS, f"src/{FUNCTIONS}"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".py", ".sql"):
                digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


def copy(folder: Path) -> Path:
    """A copy of the package to plant faults in."""
    shutil.copytree(ROOT / "src", folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src"


def _try(mutant: SqlMutant, calls: dict[str, list[str]]) -> bool:
    """Whether a test notices it. A function that PostgreSQL writes into its caller says nothing: then the
    tests of those that name it are tried."""
    tests = calls.get(mutant.function) or _of_callers(mutant, calls)
    if not tests:
        return False
    with tempfile.TemporaryDirectory() as name:
        planted = copy(Path(name)) / mutant.path.relative_to(ROOT / "src")
        planted.write_text(mutant.planted(), encoding="utf-8")
        return _pytest(Path(name), tests, {}, ENOUGH).returncode != 0


def _of_callers(mutant: SqlMutant, calls: dict[str, list[str]]) -> list[str]:
    name = re.compile(rf"\bwindlass\.{mutant.function}\b")
    callers = [each.name for each in definitions() if name.search(each.text)]
    return [test for caller in callers for test in calls.get(caller, [])]


def _telling(paragraph: str) -> str:
    """A function that says its name to the server's log; anything else as it is."""
    made = MADE.search(paragraph)
    says = rf"\g<0>\n    RAISE LOG 'called {made[1]}';" if made else r"\g<0>"
    return re.sub(r"^BEGIN$", says, paragraph, count=1, flags=re.MULTILINE)


def _pytest(
    folder: Path, arguments: Sequence[str], environment: dict[str, str], seconds: float | None = None
) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "pytest", *QUIET, *arguments]
    if seconds is None:
        command.remove("-x")
    try:
        return subprocess.run(
            command,
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(folder / "src"), **environment},
            capture_output=True,
            text=True,
            check=False,
            timeout=None if seconds is None else 60 + 3 * seconds,
        )
    except subprocess.TimeoutExpired:  # it waits for what the fault keeps from it
        return subprocess.CompletedProcess(command, 1, "", "")
