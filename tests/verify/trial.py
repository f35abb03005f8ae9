"""One run of the tests of `core` in a process of its own: against one mutant, or against none, to learn which
test runs which lines and how long it takes.

A trial is a fork of a process that has all libraries in memory and nothing of ours, so it starts in a
fraction of a second and imports the package anew, with the fault. Hypothesis draws the same examples each
time and does not shrink them.
"""

import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import json
import os
import resource
import sys
import time
from collections.abc import Generator, Sequence
from pathlib import Path
from types import CodeType, ModuleType
from typing import Final, NoReturn

import coverage
import hypothesis
import pytest

from tests.verify.figures import ROOT, SOURCE
from tests.verify.mutants import Mutant, planted

CORE: Final = SOURCE / "core"
TESTS: Final = ROOT / "tests" / "core"
WORDS: Final = ROOT / "tests" / "app" / "test_words.py"
"""How people write names, spans of time, sizes and routes, which core reads."""
QUIET: Final = [
    *("-q", "-x", "--no-header", "--tb=no", "-p", "no:cacheprovider", "-p", "no:xdist"),
    *("-W", "ignore::pytest.PytestAssertRewriteWarning"),  # plugins are in memory before pytest starts
]
MEMORY: Final = 4 << 30
"""Bytes that a mutant may take before it counts as found: some grow a list for ever."""


def warm_up() -> None:
    """Bring the libraries into memory and let go of everything of ours that came with them."""
    for name in ("windlass", "tests.conftest"):
        importlib.import_module(name)
    for name in list(sys.modules):
        if name.split(".")[0] == "windlass" or name == "tests.conftest":
            del sys.modules[name]


class Planted(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Answers the import of one module with the code of its mutant."""

    def __init__(self, mutant: Mutant) -> None:
        self.name = module_name(mutant.path)
        self.code: CodeType = compile(planted(mutant), str(mutant.path), "exec")

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        return importlib.util.spec_from_loader(fullname, self) if fullname == self.name else None

    def exec_module(self, module: ModuleType) -> None:
        exec(self.code, module.__dict__)  # noqa: S102 - our own module


class Chosen:
    """A pytest plugin: only these tests, in this order, with examples that never change."""

    def __init__(self, tests: Sequence[str] | None) -> None:
        self._order = None if tests is None else {test: place for place, test in enumerate(tests)}

    def pytest_collection(self, session: pytest.Session) -> None:
        """After conftest.py set its profile, and before a test module copies it."""
        phases = (hypothesis.Phase.explicit, hypothesis.Phase.generate)
        hypothesis.settings.register_profile(
            "mutation", deadline=None, derandomize=True, database=None, phases=phases
        )
        hypothesis.settings.load_profile("mutation")

    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        if self._order is not None:
            order = self._order
            items[:] = sorted((i for i in items if i.nodeid in order), key=lambda i: order[i.nodeid])


class Watched:
    """A pytest plugin: which test runs which lines, and its processor time."""

    def __init__(self, measured: coverage.Coverage) -> None:
        self._measured = measured
        self.seconds: dict[str, float] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, object, object]:
        began = time.process_time()
        self._measured.switch_context(item.nodeid)
        answer = yield
        self._measured.switch_context("")
        self.seconds[item.nodeid] = time.process_time() - began
        return answer


def try_none(answer: Path, only: Sequence[str] = ()) -> NoReturn:
    """Run all tests, or the files of the named modules, on the code as it is, and leave what was learnt in a
    file. For a fork; never returns."""
    _be_silent()
    measured = coverage.Coverage(data_file=None, include=[f"{CORE}/*"], config_file=False)
    measured.start()
    watched = Watched(measured)
    own = [TESTS / f"test_{name}.py" for name in only]
    files = [path for path in own if path.exists()] if only else [TESTS]
    status = pytest.main([*QUIET, *map(str, files), str(WORDS)], plugins=[Chosen(None), watched])
    measured.stop()
    data = measured.get_data()
    lines = {Path(path).name: data.contexts_by_lineno(path) for path in data.measured_files()}
    answer.write_text(json.dumps({"seconds": watched.seconds, "lines": lines}), encoding="utf-8")
    os._exit(int(status))


def try_one(mutant: Mutant | None, tests: Sequence[str], seconds: int) -> NoReturn:
    """Run these tests on a mutant, or on the code as it is, until one fails. For a fork; never returns."""
    _be_silent()
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    if mutant is not None:
        sys.meta_path.insert(0, Planted(mutant))
    files = sorted({test.split("::")[0] for test in tests})
    if not files:
        os._exit(int(pytest.ExitCode.NO_TESTS_COLLECTED))
    os._exit(int(pytest.main([*QUIET, *files], plugins=[Chosen(tests)])))


def module_name(path: Path) -> str:
    """What Python calls the module of this file."""
    return ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)


def _be_silent() -> None:
    os.chdir(ROOT)
    silence = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(silence, stream)
