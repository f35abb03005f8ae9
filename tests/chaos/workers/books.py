"""Whether what the handlers wrote down adds up to what producers were promised.

lost        acknowledged, and not ended as expected
twice       more effects than one and one for each run that was cut off (its process was killed, stopped
            past its lease, or told to hand its jobs back)
overlap     two runs of one job at the same time, both in processes that nobody had stopped
unexplained a run without an end in a process that nobody has killed or stopped
"""

import itertools
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path

import msgspec

from tests.chaos.workers.jobs import Entry

ENDS = ("done", "stopped", "failed")
_decode = msgspec.json.Decoder(Entry).decode


def read(path: Path) -> list[Entry]:
    """Every entry so far. A last line without its end was never written."""
    if not path.exists():
        return []
    return [_decode(line) for line in path.read_bytes().splitlines(keepends=True) if line.endswith(b"\n")]


class Run:
    """One run of a job: all entries under one fence."""

    def __init__(self, entries: list[Entry]) -> None:
        self.entries = sorted(entries, key=lambda entry: entry.at)
        self.job, self.pid, self.fence = entries[0].job, entries[0].pid, entries[0].fence
        self.began = self.entries[0].at
        last = self.entries[-1]
        self.end = last.what if last.what in ENDS else None
        self.ended = last.at
        self.effects = sum(entry.what == "effect" for entry in entries)

    def __repr__(self) -> str:
        return f"<{self.began:.3f}…{self.ended:.3f} {self.end} in {self.pid}, claim {self.fence}>"


class Books:
    """The runs of every job. `killed` says when a process was killed, `fenced` which were stopped for so long
    that their jobs were given to others."""

    def __init__(
        self, entries: Iterable[Entry], killed: Mapping[int, float], fenced: Iterable[int] = ()
    ) -> None:
        self._killed = killed
        self._fenced = frozenset(fenced)
        grouped: dict[int, dict[tuple[int, int], list[Entry]]] = defaultdict(lambda: defaultdict(list))
        for entry in entries:
            if entry.job:
                grouped[entry.job][entry.fence, entry.pid].append(entry)
        self.runs = {
            job: sorted((Run(entries) for entries in runs.values()), key=lambda run: run.began)
            for job, runs in grouped.items()
        }

    def effects(self, job: int) -> int:
        """How often the job had its effect."""
        return sum(run.effects for run in self.runs.get(job, ()))

    @property
    def extra(self) -> int:
        """Effects beyond the first of each job."""
        return sum(max(0, self.effects(job) - 1) for job in self.runs)

    def check(self, jobs: Iterable[int]) -> None:
        """Every one of these jobs had its effect, and no job had more than it may."""
        missing = [job for job in jobs if not self.effects(job)]
        assert not missing, f"{len(missing)} jobs had no effect, such as {missing[:3]}"
        for job, runs in self.runs.items():
            story = f"job {job}: {runs}"
            cut = sum(self._cut(run) for run in runs)
            assert self.effects(job) <= 1 + cut, f"too many effects: {story}"
            assert all(run.effects <= 1 for run in runs), f"two runs under one fence: {story}"
            assert all(run.end or self._gone(run) for run in runs), f"a run without an end: {story}"
            for sooner, later in itertools.pairwise(runs):
                fenced = sooner.pid in self._fenced or later.pid in self._fenced
                assert fenced or self._over(sooner) <= later.began, f"two at the same time: {story}"

    def _cut(self, run: Run) -> bool:
        return self._gone(run) or run.end == "stopped"

    def _gone(self, run: Run) -> bool:
        return run.pid in self._killed or run.pid in self._fenced

    def _over(self, run: Run) -> float:
        """When the run was over at the latest that its entries allow."""
        return run.ended if run.end else max(run.ended, self._killed.get(run.pid, run.ended))
