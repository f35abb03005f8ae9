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
    home = PLACE / subject.folder.name
    requirements = subject.folder / "requirements.txt"
    wanted = hashlib.sha256(requirements.read_bytes() + sys.version.encode()).hexdigest()
    mark = home / "made-from"
    if not mark.exists() or mark.read_text("ascii") != wanted:
        shutil.rmtree(home, ignore_errors=True)
        _run([sys.executable, "-m", "venv", str(home)])
        _run([str(home / "bin" / "python"), "-m", "pip", "install", "-q", "-r", str(requirements)])
        mark.write_text(wanted, "ascii")
    return home / "bin" / "python"


def _run(command: list[str]) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)} failed:\n{done.stdout[-500:]}{done.stderr[-2000:]}")
