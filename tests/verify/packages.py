"""The step that builds sdist and wheel, looks into both, and uses each in a virtual environment of its own.

Used means: the command tells the version, a job is enqueued and run on a SQLite file, and the demo imports a
small file with real worker processes. Nothing of the checkout is on the path there.
"""

import os
import subprocess
import sys
import tarfile
import tempfile
import tomllib
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from tests.verify.figures import ROOT, SOURCE, Figure, judged, say

STEP: Final = "build"
CARRIED: Final = {".py", ".sql", ".html", ".js", ".css", ".svg", ".typed"}
"""What the package is made of; other files below it are left behind by tools."""
SHOP: Final = """
import sys
from windlass import Windlass

app = Windlass()

@app.task(name="mail.send")
async def send(to: str) -> str:
    return "sent to " + to

if __name__ == "__main__":
    job = send.enqueue("ada@example.org")
    app.run_until_idle()
    sys.exit(job.result() != "sent to ada@example.org")
"""


def check(only: Sequence[str] = (), details: dict[str, Any] | None = None) -> list[Figure]:
    """Build both and try both."""
    with tempfile.TemporaryDirectory(prefix="windlass-build-") as folder:
        home = Path(folder)
        if not _run("build", [sys.executable, "-m", "build", "--outdir", folder, str(ROOT)], home):
            return [judged(STEP, "sdist and wheel", figure="not built", bound="built", holds=False)]
        (wheel,), (sdist,) = home.glob("*.whl"), home.glob("*.tar.gz")
        metadata = _run(
            "metadata", [sys.executable, "-m", "twine", "check", "--strict", str(wheel), str(sdist)], home
        )
        figures = [
            judged(STEP, "metadata", figure="right" if metadata else "wrong", bound="right", holds=metadata),
            _counted("files missing in the wheel", missing(in_wheel(wheel))),
            _counted("files in the wheel that are not the package's", foreign(in_wheel(wheel))),
            _counted("files missing in the sdist", missing(in_sdist(sdist))),
        ]
        return figures + [_tried(each, home / each.name.split("-")[-1]) for each in (wheel, sdist)]


def in_wheel(wheel: Path) -> set[str]:
    """What lands in site-packages."""
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def in_sdist(sdist: Path) -> set[str]:
    """The sources in it, as they would be in site-packages."""
    with tarfile.open(sdist) as archive:
        inside = {name.partition("/")[2] for name in archive.getnames()}
    return {name.removeprefix("src/") for name in inside if name.startswith("src/")}


def missing(carried: set[str]) -> list[str]:
    """Files of the package that are not carried: sql, templates, static files, py.typed and all modules."""
    files = (path for path in SOURCE.rglob("*") if path.suffix in CARRIED)
    return sorted({path.relative_to(SOURCE.parent).as_posix() for path in files} - carried)


def foreign(carried: set[str]) -> list[str]:
    """Files that no user should get: tests, caches, anything beside the package and its metadata."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    parts = project["tool"]["hatch"]["build"]["targets"]["wheel"]["packages"]
    ours = tuple(part.removeprefix("src/") for part in parts)
    return sorted(
        name
        for name in carried
        if not (name.startswith(ours) and Path(name).suffix in CARRIED) and ".dist-info/" not in name
    )


def _counted(what: str, names: Sequence[str]) -> Figure:
    for name in names[:20]:
        say(f"  {what}: {name}")
    return judged(STEP, what, figure=str(len(names)), bound="0", holds=not names)


def _tried(package: Path, home: Path) -> Figure:
    """Install it where nothing else is, and use it."""
    venv.create(home, with_pip=True)
    (home / "shop.py").write_text(SHOP, encoding="utf-8")
    python = home / "bin" / "python"
    windlass = str(home / "bin" / "windlass")
    steps = {
        "install": [str(python), "-m", "pip", "install", "--quiet", f"{package}[web]"],
        "version": [windlass, "--version"],
        "job": [str(python), "shop.py"],
        "enqueue": [windlass, "enqueue", "mail.send", "bob@example.org"],
        "demo": [windlass, "demo", "--size", "4MiB"],
    }
    failed = next((name for name, command in steps.items() if not _run(name, command, home)), None)
    what = f"use of {package.name}"
    return judged(
        STEP, what, figure=f"{failed} failed" if failed else "works", bound="works", holds=not failed
    )


def _run(name: str, command: Sequence[str], folder: Path) -> bool:
    """Run one command away from the checkout; its output is shown only if it fails."""
    say(f"  {name}")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "WINDLASS_"))}
    environment = {**kept, "WINDLASS_DATABASE_URL": f"sqlite:///{folder}/jobs.db"}
    done = subprocess.run(
        list(command),
        cwd=folder,
        env=environment,
        check=False,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=900,
    )
    if done.returncode:
        say(done.stdout[-4000:])
    return done.returncode == 0
