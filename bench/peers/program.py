"""A peer's program at work: its verbs run to their end, its workers until they are told to stop."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from typing import Any, Final

import psutil

from bench.meters import family_cpu
from bench.peers import ledger
from bench.peers.subjects import HERE, Subject
from bench.peers.venvs import interpreter
from bench.servers import Place

STOP: Final = 45.0
LEFT: Final = 10.0


class PeerFailed(Exception):
    """A peer's program ended with an error; its last words are in the message."""


class Program:
    """One peer on one fresh store, and the kind of jobs that it is given there."""

    def __init__(self, subject: Subject, place: Place, kind: str = "noop", **environment: str) -> None:
        self.subject = subject
        self.place = place
        self.kind = kind
        path = os.pathsep.join((str(subject.folder), str(HERE / "kit")))
        self._environment = {**os.environ, **place.environment, "PYTHONPATH": path}
        self._environment |= {"BENCH_SUBJECT": subject.name, "BENCH_KIND": kind, **environment}
        self._command = [str(interpreter(subject)), str(subject.folder / "peer.py")]
        self._log = place.ledger / "log"

    def tell(self, *words: object, patience: float = 600) -> dict[str, Any]:
        """Run a verb and return its answer."""
        process = self.start(*words)
        try:
            return self.answer(process, patience)
        finally:
            if process.poll() is None:
                end(process)

    def start(self, *words: object) -> subprocess.Popen[str]:
        """Begin a verb that goes on beside us."""
        with self._log.open("a") as log:
            return subprocess.Popen(
                [*self._command, *map(str, words)],
                cwd=self.place.ledger,
                env=self._environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE if words[0] != "work" else log,
                stderr=log,
                text=True,
                start_new_session=True,
            )

    def answer(self, process: subprocess.Popen[str], patience: float = 600) -> dict[str, Any]:
        """Wait for a verb's answer, the last line it prints."""
        try:
            out, _ = process.communicate(timeout=patience)
        except subprocess.TimeoutExpired:
            end(process)
            raise PeerFailed(f"no answer within {patience:g} s; {self.words()}") from None
        if process.returncode:
            raise PeerFailed(f"ended with {process.returncode}; {self.words()}")
        lines = out.strip().splitlines()
        answer: dict[str, Any] = json.loads(lines[-1]) if lines else {}
        return answer

    def words(self) -> str:
        """The last words of the programs, for an error."""
        return self._log.read_text("utf-8", "replace")[-1500:] if self._log.exists() else ""

    def fill(self, jobs: int) -> dict[str, Any]:
        """Enqueue jobs by the fastest way this peer has."""
        way = ["--bulk"] if self.describe()["bulk"] else ["--clients", "16"]
        return self.tell("enqueue", "--count", jobs, "--kind", self.kind, *way)

    def left(self) -> int | None:
        """Jobs not finished, as the peer counts them; None where it cannot say within a moment: to count
        takes some of them minutes."""
        with contextlib.suppress(PeerFailed):
            found: int | None = self.tell("left", patience=LEFT)["left"]
            return found
        return None

    def describe(self) -> dict[str, Any]:
        """Versions, settings, and the name of its bulk call."""
        return self.tell("describe")

    @contextlib.contextmanager
    def working(self, processes: int = 1, slots: int | None = None) -> Iterator[psutil.Process]:
        """Workers, from their start to their end."""
        words = ["work", "--processes", processes, *(["--slots", slots] if slots else [])]
        process = self.start(*words)
        try:
            yield psutil.Process(process.pid)
        finally:
            end(process)

    def ran(self) -> int:
        """How many runs the ledger holds."""
        return ledger.counted(self.place.ledger)

    def wait_for(self, runs: int, patience: float, still: float = 20.0) -> bool:
        """Wait until so many runs are in the ledger; False when they are not within `patience` seconds, or
        when nothing has moved for `still`."""
        began = moved = time.monotonic()
        last = -1
        while (seen := self.ran()) < runs:
            now = time.monotonic()
            if seen != last:
                last, moved = seen, now
            if now - began > patience or now - moved > still:
                return False
            time.sleep(0.005)
        return True


def end(process: subprocess.Popen[str]) -> None:
    """SIGTERM, and SIGKILL for the whole group where that is not heard."""
    if process.poll() is None:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(STOP)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def settled(process: psutil.Process, patience: float = 120.0) -> None:
    """Wait until a family of processes has started up: it uses little processor time for a second."""
    until = time.monotonic() + patience
    time.sleep(1.0)
    before = family_cpu(process)
    while time.monotonic() < until:
        time.sleep(1.0)
        now = family_cpu(process)
        if now - before < 0.25:
            return
        before = now
