"""What must hold in a file of the SQLite store at any time: [I1] to [I5] of migrations/0001_schema.sql.
[I6] to [I8] are checked in `families`, and [I9] to [I13] in `gating`.

A scan of everything, written without the store's own statements, so that the two can disagree.
"""

import os
from collections import Counter
from typing import Any

import apsw

from tests.store.sqlite.families import Family
from tests.store.sqlite.gating import Gating

SEQ = (1 << 44) - 1
OFFERED, ENDED, CANCELLED, DEFERRED, HELD, WAITING = (2, 3), (4, 5, 6), 6, (7, 8), 9, 10
NAMES = {5: "dead", 7: "scheduled", 8: "retrying", 9: "held"}


def check(path: str | os.PathLike[str]) -> None:
    """Raise AssertionError where the file is damaged or one of the invariants does not hold."""
    connection = apsw.Connection(os.fspath(path), flags=apsw.SQLITE_OPEN_READWRITE)
    try:
        connection.execute("BEGIN")
        assert connection.pragma("integrity_check") == "ok"
        lanes = {row["id"]: row for row in _rows(connection, "windlass_lane")}
        claims = _rows(connection, "windlass_claim")
        jobs = _rows(connection, "windlass_job")
        family = Family(
            _rows(connection, "windlass_parent"),
            _rows(connection, "windlass_part"),
            _rows(connection, "windlass_after"),
            _rows(connection, "windlass_awaited"),
            {row["job"]: row for row in _rows(connection, "windlass_checkpoint")},
            {_id(job): job for job in jobs},
        )
        gating = Gating(
            _rows(connection, "windlass_pass"), _rows(connection, "windlass_watermark"), family.jobs
        )
        _check_places(lanes, claims, jobs, family)
        _check_counters(lanes, claims, jobs)
        _check_keys(connection, jobs, family.awaited | gating.beyond)
        _check_unknown(jobs)
        _check_inserts(connection, jobs)
        family.check()
        gating.check()
    finally:
        connection.close()


def _rows(connection: apsw.Connection, table: str) -> list[dict[str, Any]]:
    cursor = connection.execute(f"SELECT * FROM {table}")
    rows = cursor.fetchall()
    names = (
        [str(column[0]) for column in connection.execute(f"SELECT * FROM {table} LIMIT 1").description]
        if rows
        else []
    )
    return [dict(zip(names, row, strict=True)) for row in rows]


def _id(job: dict[str, Any]) -> int:
    return int(job["pos"] if job["id"] is None else job["id"])


def _runs(lanes: dict[int, dict[str, Any]], job: dict[str, Any]) -> bool:
    return job["state"] in OFFERED and job["pos"] & SEQ <= lanes[job["lane"]]["hi"]


def _covering(claims: list[dict[str, Any]], job: dict[str, Any]) -> list[dict[str, Any]]:
    lane, seq = job["pos"] >> 44, job["pos"] & SEQ
    return [claim for claim in claims if claim["lane"] == lane and claim["lo"] <= seq <= claim["hi"]]


def _check_places(
    lanes: dict[int, dict[str, Any]],
    claims: list[dict[str, Any]],
    jobs: list[dict[str, Any]],
    family: Family,
) -> None:
    for job in jobs:
        lane, seq = job["pos"] >> 44, job["pos"] & SEQ
        assert seq <= lanes[lane]["seq"], f"{job} stands at a place that was never given out"
        if lane == 0:
            allowed = ENDED if _id(job) in family.parents else (5, 6)
            assert job["state"] in (*allowed, *DEFERRED, HELD, WAITING), f"[I3] {job}"
        else:
            assert lane == job["lane"], f"{job} stands in another lane than its own"
            if seq > lanes[lane]["hi"]:
                assert job["state"] in OFFERED, f"[I1] {job}"
            else:
                assert job["state"] not in (HELD, WAITING), f"[I2] {job}"
                # One that was put off keeps its place though its claim may go, and is cancelled there.
                wanted = job["state"] in (*OFFERED, *ENDED) and job["state"] != CANCELLED
                assert not wanted or len(_covering(claims, job)) == 1, f"[I2] {job}"
        due = job["state"] in DEFERRED and _id(job) not in family.waiting
        assert (job["run_at"] is not None) == due, f"[I8] {job}"
    ids = [_id(job) for job in jobs]
    assert len(set(ids)) == len(ids), "[I5] two jobs share an id"


def _check_counters(
    lanes: dict[int, dict[str, Any]], claims: list[dict[str, Any]], jobs: list[dict[str, Any]]
) -> None:
    counted: Counter[tuple[int, str]] = Counter()
    running: Counter[int] = Counter()
    for job in jobs:
        if job["state"] in OFFERED:
            runs = _runs(lanes, job)
            counted[job["lane"], "running" if runs else "ready"] += 1
            if runs:
                running[_covering(claims, job)[0]["id"]] += 1
        elif job["state"] in NAMES:
            counted[job["lane"], NAMES[job["state"]]] += 1
    for lane in lanes.values():
        for name in ("ready", "held", "running", "scheduled", "retrying", "dead"):
            assert lane[name] == counted[lane["id"], name], f"[I4] {name} of {lane}"
    for claim in claims:
        assert claim["unfinished"] == running[claim["id"]], f"unfinished of {claim}"


def _check_keys(connection: apsw.Connection, jobs: list[dict[str, Any]], bound: set[int]) -> None:
    unfinished = {_id(job): job for job in jobs if job["state"] not in ENDED}
    held = {row["job"] for row in _rows(connection, "windlass_unique")}
    wanted = {id for id, job in unfinished.items() if '"unique_key"' in (job["options"] or "")}
    assert held == wanted, "unique keys are held by other jobs than the unfinished ones that have them"
    for row in _rows(connection, "windlass_checkpoint"):
        assert row["job"] in unfinished, f"checkpoint without a job: {row}"
    bound = bound | held | {row["job"] for row in _rows(connection, "windlass_checkpoint")}
    for id, job in unfinished.items():
        if job["state"] == 2:
            assert id not in bound, f"{job} would end without freeing its key or its pass"
            assert '"part"' not in (job["options"] or ""), f"{job} would end without its parent's knowledge"
            assert job["cancel"] is None, f"{job} would end without regard to its cancel"


def _check_unknown(jobs: list[dict[str, Any]]) -> None:
    for job in jobs:
        put_off = job["state"] in DEFERRED and '"unknown_since"' in (job["options"] or "")
        found = job["reason"] == "no worker knows this task"
        assert put_off == found or job["state"] in ENDED, f"{job} waits for another reason than it says"


def _check_inserts(connection: apsw.Connection, jobs: list[dict[str, Any]]) -> None:
    inserts = _rows(connection, "windlass_insert")
    for job in jobs:
        mine = [one for one in inserts if one["lo"] <= _id(job) < one["lo"] + one["n"]]
        assert len(mine) == 1, f"{job} has {len(mine)} inserts"
        assert mine[0]["number"] + _id(job) - mine[0]["lo"] == job["number"], f"{job} and {mine[0]}"
