"""The step that asks whether the tests of `core` would notice a fault: it plants every fault of `mutants.py`,
one at a time, and counts those that a test finds. What survives is listed with its line.

Each mutant is tried with the tests that run the function it is in, and with those of its module's own test
file; the quickest first, and no more than ten seconds of them.
"""

import json
import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

from tests.verify import trial
from tests.verify.figures import Figure, judged, say
from tests.verify.mutants import Mutant, mutants

STEP: Final = "mutation"
LEAST: Final = 60.0
ENOUGH: Final = 10.0
"""Seconds of tests for one mutant."""
CONTROL: Final = 50
"""Mutants between two trials without a fault."""
NOTHING_RAN: Final = 5
"""What pytest answers when it found no test to run."""


class Unsound(Exception):
    """Tests fail that should not, so what they find says nothing."""


@dataclass(frozen=True)
class Known:
    """What the run without a fault taught: how long a test takes, and which tests run a line of a file."""

    seconds: dict[str, float]
    lines: dict[str, dict[str, list[str]]]

    def tests(self, mutant: Mutant) -> list[str]:
        """Those that may notice the mutant, the quickest first."""
        first, last = mutant.body or (1, sys.maxsize)
        ran = self.lines.get(mutant.path.name, {}).items()
        chosen = {test for line, tests in ran if first <= int(line) <= last for test in tests}
        own = f"tests/core/test_{mutant.path.stem}.py::"
        chosen |= {test for test in self.seconds if test.startswith(own)}
        spent, few = 0.0, []
        for test in sorted(chosen & self.seconds.keys(), key=lambda each: self.seconds[each]):
            spent += self.seconds[test]
            if spent > ENOUGH:
                break
            few.append(test)
        return few


def check(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """The score over all modules of `core`, or over the named ones with nothing but their own test files."""
    trial.warm_up()
    known = learn(only)
    if known is None:
        return [judged(STEP, "tests/core on the code as it is", figure="failed", bound="passed", holds=False)]
    paths = [p for p in sorted(trial.CORE.glob("*.py")) if not only or p.stem in only]
    every = [mutant for path in paths for mutant in mutants(path)]
    say(f"{len(every)} mutants of {len(paths)} modules")
    try:
        survivors = set(_survivors(every, known))
    except Unsound as error:
        return [judged(STEP, str(error), figure="failed", bound="passed", holds=False)]
    for path in paths:
        _tell(path, every, survivors)
    if details is not None:
        details[STEP] = [asdict(each) | {"path": each.path.name} for each in every if each in survivors]
    score = 100 * (len(every) - len(survivors)) / max(1, len(every))
    found = f"{score:.1f} % of {len(every)}"
    what = "mutants of core found by tests/core"
    return [judged(STEP, what, figure=found, bound=f"≥ {LEAST:.0f} %", holds=score >= LEAST)]


def learn(only: Sequence[str] = ()) -> Known | None:
    """Run the tests without a fault, or those of the named modules; None if they fail."""
    with tempfile.TemporaryDirectory() as folder:
        answer = Path(folder) / "known.json"
        child = os.fork()
        if child == 0:
            trial.try_none(answer, only)
        _, status = os.waitpid(child, 0)
        if status != 0:
            return None
        return Known(**json.loads(answer.read_text(encoding="utf-8")))


def _survivors(every: Sequence[Mutant], known: Known) -> Iterator[Mutant]:
    """Try them all, as many at a time as there are cores. Raises Unsound."""
    running: dict[int, tuple[Mutant, bool]] = {}
    began, waiting = time.monotonic(), _with_controls(every)
    try:
        while waiting or running:
            if waiting and len(running) < (os.cpu_count() or 1):
                mutant, is_planted = waiting.pop()
                running[_start(mutant if is_planted else None, known.tests(mutant), known)] = (
                    mutant,
                    is_planted,
                )
                continue
            child, status = os.wait()
            mutant, is_planted = running.pop(child)
            unnoticed = os.waitstatus_to_exitcode(status) in (0, NOTHING_RAN)
            if unnoticed and is_planted:
                yield mutant
            elif not unnoticed and not is_planted:
                raise Unsound(f"the tests around {mutant.path.name}:{mutant.line} fail without a fault")
            if len(waiting) % 200 == 0:
                say(f"  {len(waiting)} to go after {time.monotonic() - began:.0f} s")
    finally:
        for child in running:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)


def _with_controls(every: Sequence[Mutant]) -> list[tuple[Mutant, bool]]:
    """The trials, last one first. Now and then, and at the end, one without the fault: were something else
    broken, or the tree edited meanwhile, every mutant would count as found."""
    trials: list[tuple[Mutant, bool]] = []
    for number, mutant in enumerate(every, 1):
        trials.append((mutant, True))
        if number % CONTROL == 0 or number == len(every):
            trials.append((mutant, False))
    return trials[::-1]


def _start(mutant: Mutant | None, tests: Sequence[str], known: Known) -> int:
    usual = sum(known.seconds[test] for test in tests)
    child = os.fork()
    if child == 0:
        trial.try_one(mutant, tests, seconds=int(10 + 3 * usual))
    return child


def _tell(path: Path, every: Sequence[Mutant], survivors: set[Mutant]) -> None:
    of_it = [mutant for mutant in every if mutant.path == path]
    alive = [mutant for mutant in of_it if mutant in survivors]
    if of_it:
        say(f"{path.name:16} {len(of_it) - len(alive):4} of {len(of_it):4} found")
    for mutant in alive:
        say(f"    {path.name}:{mutant.line}  {' '.join(mutant.what.split())[:140]}")
