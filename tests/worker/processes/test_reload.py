"""`--reload` notices what matters and nothing else [K9]."""

import asyncio
import os
from pathlib import Path

import pytest

from tests.stopwatch import within
from tests.worker.line import until
from windlass.worker.processes import reload
from windlass.worker.processes.reload import snapshot, sources, watch


@pytest.fixture
def project(tmp_path: Path) -> Path:
    for name in (
        "app.py",
        "shop/tasks.py",
        "notes.txt",
        ".hidden/secret.py",
        "shop/__pycache__/tasks.py",
        "env/lib/site.py",
        "node_modules/x.py",
    ):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    (tmp_path / "env" / "pyvenv.cfg").write_text("")
    return tmp_path


def test_only_the_code_of_the_project_is_looked_at(project: Path) -> None:
    assert {path.relative_to(project).as_posix() for path in sources(project)} == {"app.py", "shop/tasks.py"}


def test_a_file_that_vanishes_under_the_look_is_no_error(project: Path) -> None:
    (project / "gone.py").symlink_to(project / "nowhere.py")
    assert project / "gone.py" not in snapshot(project)


async def test_k9_a_change_an_addition_and_a_removal_are_noticed(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """[K9] Each once, and other files not at all."""
    monkeypatch.setattr(reload, "LOOK_EVERY", 0.01)
    changes, looks = 0, 0
    changed = asyncio.Event()
    look = reload.snapshot

    def counted(root: Path) -> dict[Path, int]:
        nonlocal looks
        looks += 1
        return look(root)

    def note() -> None:
        nonlocal changes
        changes += 1
        changed.set()

    monkeypatch.setattr(reload, "snapshot", counted)
    watching = asyncio.create_task(watch(project, note))
    try:
        await until(lambda: looks >= 2)
        for step in (
            lambda: os.utime(project / "app.py", ns=(1, 1)),
            lambda: (project / "new.py").write_text(""),
            (project / "new.py").unlink,
        ):
            changed.clear()
            step()
            async with within(10):
                await changed.wait()
        (project / "notes.txt").write_text("not code")
        seen = looks
        await until(lambda: looks >= seen + 3)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    assert changes == 3
