"""Compare what Windlass shows now with the golden files, or accept it: see `tests.golden`."""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from difflib import unified_diff
from pathlib import Path
from typing import Final

from tests.golden import still

ROOT: Final = Path(__file__).parents[2]
FILES: Final = Path(__file__).parent / "files"
TRANSCRIPTS: Final = ("api", "cli", "pages")
PARTS: Final = (*TRANSCRIPTS, "openapi", "names", "sql")


def recorded(part: str) -> dict[str, str]:
    """The files of a part as they would be now."""
    if part in TRANSCRIPTS:
        return replayed(part)
    from tests.golden import catalogue, names, openapi

    return {"openapi": openapi.recorded, "names": names.recorded, "sql": catalogue.of_server}[part]()


def replayed(part: str) -> dict[str, str]:
    """The transcripts of a part as they would be now, from a process of its own in which the clock stands
    still."""
    command = [sys.executable, "-m", "tests.golden", "--replay", part]
    environment = {"PATH": os.environ["PATH"], **still.ENVIRONMENT}
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"golden files of {part} cannot be recorded:\n{done.stderr}")
    files: dict[str, str] = json.loads(done.stdout)
    return files


def difference(part: str, files: dict[str, str]) -> str:
    """Tell how these files differ from the accepted ones, and what to do then; nothing if they do not."""
    before, told = accepted(part), list[str]()
    for name in sorted(files.keys() | before.keys()):
        lines = before.get(name, "").split("\n"), files.get(name, "").split("\n")
        told += unified_diff(*lines, f"accepted/{name}", f"now/{name}", lineterm="")
    if not told:
        return ""
    return "\n".join([*told, "", f"If all of this is meant: python -m tests.golden --accept {part}"])


def accepted(part: str) -> dict[str, str]:
    """The files of a part as they were accepted."""
    paths = sorted((FILES / part).glob("*"))
    return {path.relative_to(FILES).as_posix(): path.read_text("utf-8") for path in paths}


def accept(part: str, files: dict[str, str]) -> None:
    """Write these files in the place of those that are there, and name what has changed."""
    before = accepted(part)
    for name in before.keys() - files.keys():
        (FILES / name).unlink()
    (FILES / part).mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (FILES / name).write_text(text, "utf-8")
    for name in sorted(name for name in files.keys() | before.keys() if files.get(name) != before.get(name)):
        sys.stdout.write(f"{name}\n")


def replay(part: str) -> dict[str, str]:
    """Replay transcripts in this process, which ends then."""
    still.stop()
    from tests.golden import transcripts
    from tests.golden.desk import FixedStore
    from tests.postgres import memory

    texts = accepted(part)
    with tempfile.TemporaryDirectory(dir=memory()) as place, contextlib.chdir(place):
        fixed = FixedStore()
        return {name: transcripts.replayed(text, fixed.begin()) for name, text in texts.items()}


def main() -> int:
    """Do what the command line asks for; exit code 1 where something differs."""
    parser = argparse.ArgumentParser(prog="python -m tests.golden", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"{', '.join(PARTS)} [all]")
    parser.add_argument("--accept", action="store_true", help="write the files anew")
    parser.add_argument("--replay", choices=TRANSCRIPTS, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.replay:
        json.dump(replay(asked.replay), sys.stdout)
        return 0
    differs = False
    for part in asked.parts or PARTS:
        files = recorded(part)
        if asked.accept:
            accept(part, files)
        elif told := difference(part, files):
            differs = True
            sys.stdout.write(f"{told}\n")
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
