"""What must hold between parents, parts and their jobs, and between jobs that come after each other: [I6] to
[I8] of migrations/0001_schema.sql. Written without the store's own statements, as `invariants` is."""

import json
from collections import Counter
from collections.abc import Iterator
from typing import Any

Rows = list[dict[str, Any]]
PENDING, OUT, SUCCEEDED, DEAD, CANCELLED, WAITING = 0, 1, 4, 5, 6, 10
ENDED = (SUCCEEDED, DEAD, CANCELLED)


class Family:
    """The tables of one file that say which jobs belong together."""

    def __init__(
        self,
        parents: Rows,
        parts: Rows,
        edges: Rows,
        ended: Rows,
        checkpoints: dict[int, dict[str, Any]],
        jobs: dict[int, dict[str, Any]],
    ) -> None:
        self.parents = {parent["id"]: parent for parent in parents}
        self.parts = parts
        self.edges = edges
        self.ended = {row["job"]: row["state"] for row in ended}
        self.checkpoints = checkpoints
        self.jobs = jobs

    @property
    def waiting(self) -> set[int]:
        """Jobs that wait for others."""
        return {edge["job"] for edge in self.edges}

    @property
    def awaited(self) -> set[int]:
        """Jobs that others wait for."""
        return {edge["awaited"] for edge in self.edges}

    def check(self) -> None:
        """Raise AssertionError where an invariant does not hold."""
        for parent in self.parents.values():
            mine = [part for part in self.parts if part["parent"] == parent["id"]]
            self._check_counts(parent, mine)
            self._check_state(parent)
            for part in mine:
                self._check_part(part)
        strays = [part for part in self.parts if part["parent"] not in self.parents]
        assert not strays, f"parts without a parent: {strays}"
        self._check_jobs()
        self._check_edges()

    def _check_counts(self, parent: dict[str, Any], mine: Rows) -> None:
        states = Counter(part["state"] for part in mine)
        assert [part["number"] for part in mine] == list(range(parent["total"])), f"[I6] {parent}"
        for name, state in (("out", OUT), ("succeeded", SUCCEEDED), ("dead", DEAD), ("cancelled", CANCELLED)):
            assert parent[name] == states[state], f"[I6] {name} of {parent}"
        for name in ("size", "done", "records"):
            assert parent[name] == sum(part[name] for part in mine), f"[I6] {name} of {parent}"

    def _check_state(self, parent: dict[str, Any]) -> None:
        job = self.jobs.get(parent["id"])
        assert job is not None, f"[I7] {parent} has no job"
        assert job["state"] == parent["state"], f"[I7] {parent} and {job}"
        assert (parent["finished_at"] is None) == (parent["state"] == WAITING), f"[I7] {parent}"
        busy = parent["out"] > 0 or (parent["final"] is not None and parent["final_state"] is None)
        assert busy == (parent["state"] == WAITING), f"[I7] {parent} waits for nothing, or not for all"
        if parent["state"] == WAITING:
            assert parent["cancelling"] == (job["cancel"] is not None), f"[I7] {parent} and {job}"

    def _check_part(self, part: dict[str, Any]) -> None:
        job = self.jobs.get(part["job"])
        if part["state"] == OUT:
            assert job is not None, f"[I7] {part} has lost its job"
            assert job["state"] not in ENDED, f"[I7] {part} and {job}"
            assert part["data"] is None, f"what {part} has saved is in two places"
        else:
            assert job is None or job["state"] == part["state"], f"[I7] {part} and {job}"
            assert (part["job"] is None) == (part["state"] == PENDING), f"[I7] {part}"
        if part["state"] == SUCCEEDED:
            assert part["done"] == part["size"], f"[I6] {part}"

    def _check_jobs(self) -> None:
        named = {part["job"] for part in self.parts if part["state"] == OUT}
        named |= {parent["final"] for parent in self.parents.values() if parent["final_state"] is None}
        for id, of in self._unfinished_parts():
            assert id in named or of not in self.parents, f"[I7] no part of {of} knows of its job {id}"
        for id, job in self.jobs.items():
            assert job["state"] != WAITING or id in self.parents, f"[I7] {job} is no parent"

    def _unfinished_parts(self) -> Iterator[tuple[int, int]]:
        for id, job in self.jobs.items():
            part = json.loads(job["options"] or "{}").get("part")
            if part is not None and job["state"] not in ENDED:
                yield id, part["parent"]

    def _check_edges(self) -> None:
        for edge in self.edges:
            job, awaited = self.jobs.get(edge["job"]), self.jobs.get(edge["awaited"])
            assert job is not None, f"[I8] {edge}"
            assert job["state"] == 7, f"[I8] {edge} and {job}"
            over = awaited is None or awaited["state"] in ENDED
            assert over == (edge["awaited"] in self.ended), f"[I8] {edge}, {awaited}"
