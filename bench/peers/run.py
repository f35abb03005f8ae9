"""The whole run: rounds in which every peer has its turn, written down after each measurement."""

from __future__ import annotations

import datetime
import json
import subprocess
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from bench.machine import machine
from bench.peers.left_out import reasons
from bench.peers.plan import Plan
from bench.peers.program import Program
from bench.peers.scenarios.catalog import Scenario, scenarios
from bench.peers.subjects import SUBJECTS, Subject, before
from bench.peers.venvs import interpreter
from bench.servers import REDIS, ROOT, Servers, started

WAITERS: Final = 7
"""How many peers wait for their killed workers at the same time; see `bench.peers.scenarios.killed`."""


class Run:
    """One run: what is measured, when it must end, and the file that keeps what was found."""

    def __init__(
        self, plan: Plan, folder: Path, subjects: Sequence[Subject], only: Sequence[str], server: str
    ) -> None:
        self.plan = plan
        self.folder = folder
        self.subjects = subjects
        self._only = only
        self._server = server
        self.found: dict[str, Any] = {}

    def go(self) -> None:
        """Measure everything, or the scenarios whose names begin with one of `only`."""
        self.folder.mkdir(parents=True, exist_ok=True)
        for subject in self.subjects:
            _say(f"{subject.title}: virtual environment")
            interpreter(subject)
        with started(self._server) as servers:
            took_part = [each for each in self.subjects if each.store != REDIS or servers.redis]
            self._begin(servers, took_part)
            for scenario in scenarios(self.plan):
                if scenario.name not in self.found["left_out"]["scenarios"]:
                    self._rounds(servers, scenario, [each for each in took_part if scenario.takes(each)])
        self.found["seconds"] = round(time.monotonic() - self._began)
        self._write()

    def _begin(self, servers: Servers, subjects: Sequence[Subject]) -> None:
        self._began = time.monotonic()
        self._until = self._began + 60 * self.plan.minutes
        peers: dict[str, Any] = {}
        for subject in subjects:
            with servers.fresh(subject.store) as place:
                peers[subject.name] = {**asdict(subject), **Program(subject, place).describe()}
        self.found = {
            "measured_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
            "commit": _commit(),
            "plan": asdict(self.plan),
            "machine": machine(),
            "servers": servers.settings(),
            "peers": peers,
            "scenarios": {},
            "left_out": reasons(self.plan, self.subjects, subjects, self._only, servers.restart is not None),
            "notes": servers.notes(),
        }

    def _rounds(self, servers: Servers, scenario: Scenario, subjects: Sequence[Subject]) -> None:
        for number in range(scenario.rounds):
            shift = number % max(1, len(subjects))
            order = [*subjects[shift:], *subjects[:shift]]
            if scenario.together:  # Windlass last: who comes later is measured beside others that wait
                with ThreadPoolExecutor(WAITERS) as pool:
                    list(pool.map(lambda each: self._measure(servers, scenario, each), reversed(order)))
                continue
            for subject in order:
                self._measure(servers, scenario, subject)

    def _measure(self, servers: Servers, scenario: Scenario, subject: Subject) -> None:
        kept = self.found["scenarios"].setdefault(scenario.name, {}).setdefault(subject.name, [])
        if time.monotonic() > self._until:
            self.found["notes"].append(f"{scenario.name} of {subject.title}: left out, the time was up")
            return
        began = time.monotonic()
        try:
            figures = scenario.measure(servers, subject, self.plan)
        except Exception as error:  # noqa: BLE001 - one measurement that fails must not end the others
            figures = {"failed": f"{type(error).__name__}: {error}"[:1000]}
        kept.append(figures)
        shown = {key: _short(value) for key, value in figures.items()}
        _say(f"{scenario.name:16} {subject.title:22} {time.monotonic() - began:5.0f} s  {shown}")
        self._write()

    def _write(self) -> None:
        text = json.dumps(self.found, indent=1, ensure_ascii=False)
        (self.folder / "results.json").write_text(text + "\n", "utf-8")


def _short(value: Any) -> Any:
    if isinstance(value, list):
        return [_short(each) for each in value]
    return float(f"{value:.4g}") if isinstance(value, float) else value


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _say(text: str) -> None:
    print(f"{datetime.datetime.now():%H:%M:%S}  {text}", flush=True)  # noqa: DTZ005 - a person reads it


def chosen(names: str, revision: str = "") -> list[Subject]:
    """The peers with these names, separated by commas, and Windlass; all, where none is named. With a
    `revision`, also Windlass as it was then."""
    earlier = [before(revision)] if revision else []
    if not names:
        return [*earlier, *SUBJECTS]
    wanted = {"windlass", *names.split(",")}
    if unknown := wanted - {each.name for each in SUBJECTS}:
        raise ValueError(
            f"no such peer: {', '.join(sorted(unknown))}; known: {', '.join(s.name for s in SUBJECTS)}"
        )
    return [*earlier, *(each for each in SUBJECTS if each.name in wanted)]
