"""What must hold between gates, passes and jobs: [I9] to [I13] of migrations/0001_schema.sql. Written without
the store's own statements, as `invariants` is."""

import json
from collections import Counter
from typing import Any

Rows = list[dict[str, Any]]
BOUND, ENDED, DEFERRED, HELD, WAITING = 3, (4, 5, 6), (7, 8), 9, 10
LANE = 1 << 44


class Gating:
    """The tables of one file that say who waits where, and who is beyond."""

    def __init__(self, passes: Rows, watermarks: Rows, jobs: dict[int, dict[str, Any]]) -> None:
        self.passes = passes
        self.watermarks = {(row["queue"], row["key"]): row for row in watermarks}
        self.jobs = jobs

    @property
    def beyond(self) -> set[int]:
        """Jobs that have passes."""
        return {row["job"] for row in self.passes}

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        for row in self.passes:
            self._check_pass(row)
        passes = Counter(
            gate for gate, _ in {(row["gate"], row["run"] or -row["job"]) for row in self.passes}
        )
        lines = Counter(job["gate"] for job in self.jobs.values() if job["gate"] is not None)
        for gate in passes.keys() | lines.keys():
            if gate.startswith("order:"):
                assert passes[gate] <= 1, f"[I10] {passes[gate]} jobs have the turn of {gate}"
                assert passes[gate] or not lines[gate], f"[I10] nobody has the turn of {gate}, and some wait"
                queue, _, key = gate.removeprefix("order:").partition("/")
                assert (queue, key) in self.watermarks, f"{gate} has no watermark"
        for job in self.jobs.values():
            self._check_line(job)
        self._check_runs()

    def _check_runs(self) -> None:
        firsts: dict[str, int] = {}
        for row in self.passes:
            assert row["gate"].startswith("budget:") or (row["run"] is None) == (row["place"] is None), row
            if row["run"] is not None:
                firsts[row["gate"]] = min(row["place"], firsts.get(row["gate"], row["place"]))
        for row in self.passes:
            if (
                row["run"] is not None
                and row["place"] > firsts[row["gate"]]
                and row["gate"].startswith("order:")
            ):
                job = self.jobs[row["job"]]
                assert job["state"] == BOUND, f"[I13] {job} does not run, and is not the first of {row}"

    def _check_pass(self, row: dict[str, Any]) -> None:
        job, gate = self.jobs.get(row["job"]), row["gate"]
        assert job is not None, f"[I9] {row} names no job"
        assert job["state"] not in ENDED, f"[I9] {row} names a job that has ended: {job}"
        if not gate.startswith("order:"):
            assert job["state"] not in (*DEFERRED, WAITING), f"[I9] {row} and {job}"
        if gate.startswith("budget:"):
            put_by = row["need"] if job["state"] == BOUND else 0
            assert row["n"] == put_by, f"[I12] {row} and {job}"
            assert row["need"] > 0, row
            assert 0 < row["place"] < LANE, row
            assert row["at"] is not None, row
        else:
            assert (row["n"], row["need"], row["at"]) == (1, None, None), row
            in_line = (job["gate"] or "").startswith(("budget:", "over:")) and not gate.startswith("order:")
            assert not in_line, f"[I11] {job} takes a slot while it waits for tokens: {row}"
        kind, options = gate.partition(":")[0], json.loads(job["options"] or "{}")
        wanted = {"order": "ordering_key", "key": "concurrency_key"}.get(kind)
        if wanted is not None:
            assert gate.endswith(str(options.get(wanted))), f"{row} is of another key than {job}"

    def _check_line(self, job: dict[str, Any]) -> None:
        tokens = (job["gate"] or "").startswith(("budget:", "over:"))
        assert (job["need"] is not None) == tokens, f"[I11] {job}"
        if job["gate"] is not None:
            assert job["state"] == HELD, f"only held jobs stand in lines: {job}"
            mine = {"job": job["id"] or job["pos"], "gate": job["gate"]}
            assert not any(mine.items() <= row.items() for row in self.passes), f"{job} is beyond its gate"
