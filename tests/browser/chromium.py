"""Finds a Chromium to test with, and brings one into the virtual environment where there is none.

Looked for, in this order: what WINDLASS_TEST_CHROMIUM names, the usual programs on PATH, those that
playwright has downloaded. A program counts only if it answers: on some systems `chromium` is a stub that asks
for another package. Nothing outside of the virtual environment is ever changed from here.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

VARIABLE: Final = "WINDLASS_TEST_CHROMIUM"
NAMES: Final = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
DOWNLOADED: Final = ("chrome", "headless_shell", "chrome-headless-shell", "Chromium", "chrome.exe")
ANSWER_TIME: Final = 20.0
BRING_TIME: Final = 90.0
FLAGS: Final = (
    "--no-sandbox",  # as root there is no other way; the pages are our own
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
HOW: Final = f"put one on PATH (apt-get install chromium), or name it in {VARIABLE}"


@functools.cache
def find() -> str | None:
    """The path of a Chromium that answers, or None. An empty variable says that there is none."""
    named = os.environ.get(VARIABLE)
    if named is not None:
        return named if named and _answers(named) else None
    return next((path for path in _candidates() if _answers(path)), None)


def bring() -> str | None:
    """Find one, else try once to download one into the virtual environment; None where that fails."""
    if (found := find()) is not None or os.environ.get(VARIABLE) is not None:
        return found
    try:
        subprocess.run(
            [sys.executable, "-m", "playwright", "install", "chromium"],
            env={**os.environ, "PLAYWRIGHT_BROWSERS_PATH": "0"},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=BRING_TIME,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # no network, or a slow one: the verdict says that the tests were left out
    find.cache_clear()
    return find()


def _candidates() -> Iterator[str]:
    for name in NAMES:
        if (path := shutil.which(name)) is not None:
            yield path
    for folder in _downloads():
        for each in sorted(folder.glob("chromium*"), reverse=True):
            yield from (str(path) for name in DOWNLOADED for path in each.rglob(name) if path.is_file())


def _downloads() -> Iterator[Path]:
    """Where playwright keeps browsers: in its own package, where it was told to, in the user's cache."""
    spec = importlib.util.find_spec("playwright")
    if spec is not None and spec.submodule_search_locations:
        yield Path(spec.submodule_search_locations[0], "driver", "package", ".local-browsers")
    if (found := os.environ.get("PLAYWRIGHT_BROWSERS_PATH", "0")) != "0":
        yield Path(found)
    yield Path.home() / ".cache" / "ms-playwright"


def _answers(path: str) -> bool:
    try:
        asked = subprocess.run(
            [path, "--version"], capture_output=True, text=True, timeout=ANSWER_TIME, check=False
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0 and any(name in asked.stdout for name in ("Chrom", "HeadlessShell"))
