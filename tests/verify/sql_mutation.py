"""The step that asks whether the tests would notice a fault in the SQL of the PostgreSQL store: a lock, a
fence, a condition or a write that is missing. It plants each fault of `sql_mutants.py` in a copy of the
package and runs the tests that call the function. What survives is listed with its line.

    python -m tests.verify sql-mutation                         # all: hours on two cores
    python -m tests.verify sql-mutation --only retry_many       # one function
    python -m tests.verify sql-mutation --jobs 28               # 20 minutes on 16 cores: tests wait a lot
    python -m tests.verify sql-mutation --seconds 60            # more tests for each survivor

Which tests call a function is learned first, from a copy whose functions say their name to the server's log
(`sql_calls.py`). Then each process collects the tests once and forks for each fault (`sql_faults.py`).
What was learned and each verdict are kept in `.sql-mutation/`, or in the folder of `--keep`: a run that was
ended goes on there the next time, and tries only functions anew that have changed since.
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
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from itertools import zip_longest
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, Figure, judged, say
from tests.verify.sql_mutants import MADE, SqlMutant, sql_mutants
from windlass.store.postgres.schema.sources import definitions

STEP: Final = "sql-mutation"
SOURCE: Final = ROOT / "src"
FUNCTIONS: Final = Path("windlass/store/postgres/sql")
TESTS: Final = ("tests/store/postgres", "tests/conformance")
ARGUMENTS: Final = (
    *TESTS,
    *("-k", "not memory and not sqlite and not postgres16 and not stock"),
    *("-q", "--no-header", "--tb=no", "-p", "no:cacheprovider"),
)
KEPT: Final = ROOT / ".sql-mutation"
LEAST: Final = 60.0
ENOUGH: Final = 12.0
"""Seconds of tests for one fault."""
MOST: Final = 60.0
"""Seconds of tests that are kept for a function."""
Calls = dict[str, dict[str, float]]
"""By function: the tests that call it, and how long each takes."""


def check(
    only: Sequence[str] = (),
    details: dict[str, Any] | None = None,
    *,
    jobs: int = os.cpu_count() or 1,
    keep: Path = KEPT,
    seconds: float = ENOUGH,
) -> list[Figure]:
    """The score over all functions, or over the named ones."""
    keep.mkdir(exist_ok=True)
    every = [
        mutant
        for path in sorted((SOURCE / FUNCTIONS).rglob("*.sql"))
        for mutant in sql_mutants(path)
        if not only or mutant.function in only
    ]
    say(f"{len(every)} faults; learning which tests call which function")
    calls = learn(keep, jobs)
    say(f"{len(calls)} functions are called by tests")
    began, file = time.monotonic(), keep / "verdicts.jsonl"
    known = verdicts(file, seconds)
    wanted = [each for each in every if key(each) not in known and each.function in calls]
    say(f"{sum(key(each) in known for each in every)} of them were tried before")
    if wanted:
        attempt(wanted, calls, file, jobs, seconds)
    known = verdicts(file)
    survivors = [each for each in every if not known.get(key(each))]
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


def verdicts(file: Path, seconds: float = 0.0) -> dict[str, bool]:
    """Return which faults were tried, with so many seconds of tests at least, and whether a test noticed."""
    if not file.exists():
        return {}
    rows = (json.loads(line) for line in file.read_text(encoding="utf-8").splitlines())
    return {row["key"]: row["noticed"] for row in rows if row["noticed"] or row["seconds"] >= seconds}


def attempt(wanted: Sequence[SqlMutant], calls: Calls, file: Path, jobs: int, seconds: float) -> None:
    """Try faults in processes that write their verdicts to the file; tell every minute how far they are."""
    with tempfile.TemporaryDirectory() as name, ExitStack() as stack:
        place = Path(name)
        plan = {
            "file": str(file.absolute()),
            "seconds": seconds,
            "calls": calls,
            "faults": [
                asdict(each) | {"path": str(each.path.relative_to(SOURCE)), "key": key(each)}
                for each in wanted
            ],
        }
        (place / "plan.json").write_text(json.dumps(plan), encoding="utf-8")
        (place / "begun").mkdir()
        running = []
        for number in range(min(jobs, len(wanted))):
            own = place / str(number)
            copy(own)
            log = stack.enter_context((file.parent / f"process-{number}.log").open("wb"))
            arguments = ["-p", "no:xdist", "-p", "tests.verify.sql_faults", f"--basetemp={own / 'tmp'}"]
            running.append(subprocess.Popen(**_pytest(own, arguments), stdout=log, stderr=log))
        for process in running:
            stack.callback(process.terminate)
        names = {key(each) for each in wanted}
        while any(process.poll() is None for process in running):
            time.sleep(1)
            if time.monotonic() % 60 < 1:
                tried = [noticed for name, noticed in verdicts(file, seconds).items() if name in names]
                say(f"    {len(tried)} of {len(wanted)} tried, {tried.count(False)} survived")


def learn(keep: Path, jobs: int) -> Calls:
    """Return the tests to try by function; kept for the next run of the same tree. A test that fails without
    a fault is left out, and named."""
    kept = keep / f"calls-{_fingerprint()}.json"
    if kept.exists():
        known: Calls = json.loads(kept.read_text(encoding="utf-8"))
        return known
    with tempfile.TemporaryDirectory() as folder:
        for path in (copy(Path(folder)) / FUNCTIONS).rglob("*.sql"):
            found = [_telling(paragraph) for paragraph in path.read_text(encoding="utf-8").split("\n\n")]
            path.write_text("\n\n".join(found), encoding="utf-8")
        arguments = ["-n", str(jobs), "-p", "tests.verify.sql_calls", "-rfE"]
        command = _pytest(Path(folder), arguments)
        done = subprocess.run(**command, capture_output=True, text=True, check=False)
        heard: Calls = {}
        for path in Path(folder).glob("calls-*.json"):
            for name, tests in json.loads(path.read_text(encoding="utf-8")).items():
                heard.setdefault(name, {}).update(tests)
    if not heard:
        raise RuntimeError(f"the tests did not run: {done.stdout[-2000:]}")
    failed = set(re.findall(r"^(?:FAILED|ERROR) (\S+)", done.stdout, re.MULTILINE))
    if failed:
        say(f"left out, since they fail without a fault: {', '.join(sorted(failed))}")
    for tests in heard.values():
        for test in failed & tests.keys():
            del tests[test]
    calls = choose(with_callers(heard, {each.name: each.text for each in definitions()}))
    kept.write_text(json.dumps(calls), encoding="utf-8")
    return calls


def with_callers(heard: Calls, texts: Mapping[str, str]) -> Calls:
    """Give a function that PostgreSQL writes into its caller, and that says nothing, its callers' tests."""
    heard, silent = dict(heard), texts.keys() - heard.keys()
    calling = {
        name: [each for each in texts if re.search(rf"\bwindlass\.{name}\b", texts[each]) and each != name]
        for name in silent
    }
    for _ in range(3):  # one writes another
        for name in silent:
            heard[name] = {test: s for each in calling[name] for test, s in heard.get(each, {}).items()}
    return {name: tests for name, tests in heard.items() if tests}


def choose(heard: Calls) -> Calls:
    """Choose at most MOST seconds of the tests that call a function, in the order in which to try them: one
    of each file in turn, those that call the fewest functions first, since they are about this one."""
    calls = Counter(test for tests in heard.values() for test in tests)
    chosen: Calls = {}
    for name, seconds in heard.items():
        files: dict[str, list[str]] = {}
        for test in sorted(seconds, key=lambda each: (calls[each], seconds[each])):
            files.setdefault(test.partition("::")[0], []).append(test)
        turns = [test for turn in zip_longest(*files.values()) for test in turn if test is not None]
        chosen[name] = within({test: seconds[test] for test in turns}, MOST)
    return chosen


def within(tests: dict[str, float], seconds: float) -> dict[str, float]:
    """Return those of some tests, in their order, that take so long together; one of them in any case."""
    few, left = {}, seconds
    for test, takes in tests.items():
        if takes <= left:
            few[test] = takes
            left -= takes
    return few or dict([min(tests.items(), key=lambda each: each[1])])


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
    shutil.copytree(SOURCE, folder / "src", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "src"


def _telling(paragraph: str) -> str:
    """A function that says its name to the server's log; anything else as it is."""
    made = MADE.search(paragraph)
    says = rf"\g<0>\n    RAISE LOG 'called {made[1]}';" if made else r"\g<0>"
    return re.sub(r"^BEGIN$", says, paragraph, count=1, flags=re.MULTILINE)


def _pytest(folder: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Return the arguments that run the tests with the package that lies in this folder."""
    path = os.pathsep.join([str(folder / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return {
        "args": [sys.executable, "-m", "pytest", *ARGUMENTS, *arguments],
        "cwd": ROOT,
        "env": {**os.environ, "PYTHONPATH": path, "SQL_FOLDER": str(folder)},
    }
