"""A virtual environment for each peer, with the versions it pins. Made once, and anew when they change."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from bench.peers.subjects import Subject
from bench.servers import ROOT

PLACE: Final = ROOT / ".bench" / "venvs"


def interpreter(subject: Subject) -> Path:
    """The Python of this peer's environment, which is made if need be."""
    home = PLACE / (subject.name if subject.revision else subject.folder.name)
    text = (subject.folder / "requirements.txt").read_text("utf-8")
    if subject.revision:
        text = text.replace("-e .[", f"{home / 'source'}[")
    wanted = hashlib.sha256((subject.revision + text + sys.version).encode()).hexdigest()
    mark = home / "made-from"
    if not mark.exists() or mark.read_text("ascii") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(home)])
        if subject.revision:
            _unpack(subject.revision, home / "source")
        (home / "requirements.txt").write_text(text, "utf-8")
        words = ["install", "-q", "-r", str(home / "requirements.txt")]
        _run([str(home / "bin" / "python"), "-m", "pip", *words])
        mark.write_text(wanted, "ascii")
    return home / "bin" / "python"


def _unpack(revision: str, folder: Path) -> None:
    """The tree of a commit."""
    folder.mkdir()
    archive = folder.with_suffix(".tar")
    _run(["git", "archive", "--output", str(archive), revision])
    shutil.unpack_archive(archive, folder, filter="data")
    archive.unlink()


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
