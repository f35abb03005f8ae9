"""The browser is found only where it answers."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.browser import chromium


@pytest.fixture(autouse=True)
def nothing_remembered() -> Iterator[None]:
    chromium.find.cache_clear()
    yield
    chromium.find.cache_clear()


def program(folder: Path, name: str, script: str) -> str:
    path = folder / name
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def test_a_stub_that_asks_for_another_package_is_no_browser(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(tmp_path, "chromium", "echo 'requires the chromium snap to be installed' >&2; exit 1")
    monkeypatch.delenv(chromium.VARIABLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(chromium, "_downloads", lambda: iter((tmp_path / "downloads",)))
    assert chromium.find() is None
    chromium.find.cache_clear()
    downloaded = tmp_path / "downloads" / "chromium-1" / "chrome-linux"
    downloaded.mkdir(parents=True)
    answers = program(downloaded, "chrome", "echo 'Chromium 150.0'")
    assert chromium.find() == answers


def test_the_one_that_is_named_is_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = program(tmp_path, "mine", "echo 'HeadlessShell 150.0'")
    monkeypatch.setenv(chromium.VARIABLE, named)
    assert chromium.find() == named
