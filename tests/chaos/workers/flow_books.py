"""What the ledger says about flow: how many tokens a budget may have granted between two moments, and which
runs were going on at the same time."""

import itertools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence

import msgspec

from tests.chaos.workers.books import ENDS
from tests.chaos.workers.jobs import Entry


class Allowance:
    """What a budget may grant while its rate is changed. A change is made somewhere between two moments; in
    between the larger of the two rates counts."""

    def __init__(self, rate: float, burst: int) -> None:
        self.burst = burst
        self._steps: list[tuple[float, float]] = [(float("-inf"), rate)]

    def changed(self, began: float, ended: float, rate: float) -> None:
        """From some moment between these two on it is another rate."""
        self._steps.append((began if rate > self._steps[-1][1] else ended, rate))

    def grown(self, until: float, since: float) -> float:
        """How many tokens there were to grow between two moments."""
        ends = [begin for begin, _ in self._steps[1:]] + [float("inf")]
        return sum(
            rate * max(0.0, min(until, over) - max(since, begin))
            for (begin, rate), over in zip(self._steps, ends, strict=True)
        )

    def excess(self, grants: Iterable[float], late: float) -> float:
        """By how many tokens the worst of all windows exceeds what was allowed; 0 or less: none does. A grant
        is seen up to `late` seconds after it was made, so a window may hold those of that much before it."""
        times = sorted(grants)
        since = times[0] - late
        worst = spare = float("-inf")
        for place, time in enumerate(times):
            # Of the windows that end here, the one that begins where there was the least to spare.
            spare = max(spare, self.grown(time - late, since) - place)
            worst = max(worst, place + 1 - self.grown(time, since) + spare - self.burst)
        return worst


class Span(msgspec.Struct, frozen=True, order=True):
    """One run of one job. Where its process was killed, it ended then at the latest."""

    began: float
    ended: float
    job: int


def spans(entries: Iterable[Entry], killed: Mapping[int, float]) -> list[Span]:
    """Every run, by when it began. One without an end in a process that nobody killed is an error."""
    runs: dict[tuple[int, int, int], list[Entry]] = defaultdict(list)
    for entry in entries:
        runs[entry.job, entry.fence, entry.pid].append(entry)
    found: list[Span] = []
    for (job, _, pid), run in runs.items():
        last = max(run, key=lambda entry: entry.at)
        over = last.at if last.what in ENDS else killed.get(pid)
        assert over is not None, f"a run of job {job} in process {pid} has no end: {run}"
        found.append(Span(min(entry.at for entry in run), max(over, last.at), job))
    return sorted(found)


def most_at_once(runs: Sequence[Span]) -> int:
    """How many of these were going on at the same time, at the most."""
    turns = sorted(itertools.chain.from_iterable([(run.began, 1), (run.ended, -1)] for run in runs))
    return max(itertools.accumulate(change for _, change in turns), default=0)


def grouped(runs: Iterable[Span], group: Callable[[int], str]) -> dict[str, list[Span]]:
    """The runs by what their jobs belong to, each group by when they began."""
    found: dict[str, list[Span]] = defaultdict(list)
    for run in runs:
        found[group(run.job)].append(run)
    return found
