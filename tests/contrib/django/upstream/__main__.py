"""Downloads Django's tests of tasks and runs them; see the package."""

import re
import subprocess
import sys
import tarfile
import tempfile
import unittest
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import django
from django.conf import settings
from django.test.runner import DiscoverRunner

from tests.contrib.django.upstream import NOT_OURS

OURS: Final = "tests.contrib.django.upstream.backends"
REPLACED: Final = {
    "django.tasks.backends.dummy.DummyBackend": f"{OURS}.Dummy",
    "django.tasks.backends.immediate.ImmediateBackend": f"{OURS}.Immediate",
    "from django.tasks.backends.dummy import DummyBackend": f"from {OURS} import Dummy as DummyBackend",
    "from django.tasks.backends.immediate import ImmediateBackend": (
        f"from {OURS} import Immediate as ImmediateBackend"
    ),
}


class Runner(DiscoverRunner):
    """Leaves out what cannot hold, and says why."""

    def build_suite(self, *args: Any, **kwargs: Any) -> Any:
        """The tests, with those marked that are left out."""
        suite = super().build_suite(*args, **kwargs)
        for test in each_test(suite):
            case, name = test.id().split(".")[-2:]
            reason = NOT_OURS.get(f"{case}.{name}") or NOT_OURS.get(name)
            if reason is not None:
                setattr(test, name, unittest.skip(reason)(getattr(test, name)))
        return suite


def each_test(suite: Any) -> Iterator[Any]:
    """The tests of a suite, whatever it is nested in."""
    for each in suite:
        if isinstance(each, unittest.TestSuite):
            yield from each_test(each)
        else:
            yield each


def download(folder: Path) -> Path:
    """Django's tests of tasks, from its source package."""
    wish = ["--no-deps", "--no-binary", ":all:", "-q", "-d", str(folder), f"django=={django.get_version()}"]
    subprocess.run([sys.executable, "-m", "pip", "download", *wish], check=True)
    with tarfile.open(next(folder.glob("*.tar.gz"))) as archive:
        archive.extractall(folder, filter="data")
    return next(folder.glob("*/tests/tasks"))


def main() -> int:
    """Run them; 0 when all that can hold does."""
    settings.configure(
        USE_TZ=True,
        DATABASES={"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}},
        INSTALLED_APPS=["windlass.contrib.django"],
        TASKS={"default": {"BACKEND": f"{OURS}.Immediate", "QUEUES": []}},
    )
    django.setup()
    with tempfile.TemporaryDirectory() as name:
        source, copy = download(Path(name)), Path(name, "copy", "tasks")
        copy.mkdir(parents=True)
        for file in source.glob("*.py"):
            text = file.read_text(encoding="utf-8")
            for theirs, ours in REPLACED.items():
                text = re.sub(rf"(?<![\w.]){re.escape(theirs)}\b", ours, text)
            (copy / file.name).write_text(text, encoding="utf-8")
        sys.path.insert(0, str(copy.parent))
        return 1 if Runner(verbosity=2).run_tests(["tasks"]) else 0


if __name__ == "__main__":
    sys.exit(main())
