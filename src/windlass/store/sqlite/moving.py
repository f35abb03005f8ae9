"""Leaving for another store: a file is put to rest and shut, and then read in the order in which its jobs
wait. See `windlass.store.moving.copy` for the copy itself.

A shut file takes no job, claim, worker or signal. Triggers refuse them: they hold for every process that has
the file open, and cost nothing where there are none.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

import apsw
import msgspec

from windlass.core.counts import plural
from windlass.core.retry import DeathPolicy
from windlass.core.states import Priority
from windlass.errors import ConfigurationError
from windlass.store.sqlite import workers
from windlass.store.sqlite.operation.transaction import Transaction
from windlass.store.sqlite.rows import SCHEDULED, decode_new_job, fetch, options_json
from windlass.store.sqlite.schema import Statements

_SQL = Statements("moving")
_TABLES: Final = ("job", "claim", "worker", "signal")
MAX_STREAM: Final = 1024 * 1024
"""Characters of a job's stream that leave with it: its end."""
_STATES: Final = {5: "dead", 7: "scheduled", 8: "retrying"}
_PART_STATES: Final = {0: "pending", 1: "out", 4: "succeeded", 5: "dead", 6: "cancelled"}
_PARENT_STATES: Final = {10: "waiting", 5: "dead"}

Item: TypeAlias = dict[str, Any]
Kind: TypeAlias = Literal["waiting", "after", "dead"]


# -- closing -------------------------------------------------------------------------------------------------


def identity(connection: apsw.Connection) -> str:
    """Return the name by which other stores know this file."""
    return str(connection.execute(_SQL["identity"]).get)


def closed(connection: apsw.Connection) -> bool:
    """Return whether it was shut."""
    return why_closed(connection) is not None


def why_closed(connection: apsw.Connection) -> str | None:
    """Return the message for callers of a file that was shut; None where it is open."""
    trigger: str | None = connection.execute(_SQL["closed"]).get
    return trigger and trigger.partition("ABORT, '")[2].rpartition("')")[0].replace("''", "'")


def counts(connection: apsw.Connection) -> dict[str, int]:
    """Its jobs by state, but for those that ended well or were cancelled."""
    return {state: n for state, n in fetch(connection, _SQL["counts"]) if n}


def put_to_rest(tx: Transaction, *, force: bool) -> bool:
    """One step: workers that died are rescued, live ones retired where `force` says so. Whether nothing is
    left to do. Raises ConfigurationError while a worker is alive."""
    for worker in workers.workers(tx.connection):
        if tx.now - worker.heartbeat_at > 2 * worker.lease:
            workers.rescue(tx, worker.id, worker.heartbeat, DeathPolicy())
        elif force:
            workers.retire(tx, worker.id)
        else:
            raise ConfigurationError(
                f"worker {worker.label or worker.id} on {worker.host} is alive, by its heartbeat of "
                f"{tx.now - worker.heartbeat_at:.0f} s ago: stop all workers and producers of this file. One "
                f"that was killed counts as dead after {2 * worker.lease:g} s; --force takes the jobs of "
                "live ones away, and those run again"
            )
    return not tx.connection.execute(_SQL["unsettled"]).get


def shut(tx: Transaction, why: str) -> None:
    """Take no more jobs, claims, workers and signals; `why` is what those who try are told. Raises
    ConfigurationError where jobs wait that know others by their ids here."""
    groups, handed = tx.connection.execute(_SQL["bound"]).get
    if groups or handed:
        raise ConfigurationError(
            f"{plural(groups, 'group')} and {plural(handed, 'job')} that get results of others have not "
            "ended, and cannot leave: they know other jobs by their ids here. Let workers of this file end "
            "them, or cancel them, and repeat the command"
        )
    if tx.connection.execute(_SQL["alive"]).get:
        raise ConfigurationError("a worker has started meanwhile: stop it, and repeat the command")
    reopen(tx)
    text = apsw.format_sql_value(why)
    for table in _TABLES:
        tx.run(
            f"CREATE TRIGGER windlass_moved_{table} BEFORE INSERT ON windlass_{table} "
            f"BEGIN SELECT RAISE(ABORT, {text}); END"
        )


def reopen(tx: Transaction) -> None:
    """Take jobs, workers and signals again."""
    for table in _TABLES:
        tx.run(f"DROP TRIGGER IF EXISTS windlass_moved_{table}")


# -- what leaves ---------------------------------------------------------------------------------------------


def leaving(
    connection: apsw.Connection, kind: Kind, start: int, limit: int
) -> tuple[list[tuple[int, Item]], int]:
    """The next jobs that are no parts, with their ids here, and where to go on."""
    rows = fetch(connection, _SQL[kind], (start, limit))
    items = [(row[3], _job(connection, row)) for row in rows]
    return items, rows[-1][1 if kind == "waiting" else 2] if rows else start


def leaving_parent(
    connection: apsw.Connection, start: int, dead: bool
) -> tuple[int, int, Item, list[Item], list[tuple[int, Item]]] | None:
    """The next parent: where to go on, its id here, itself, its parts, and the jobs of these with their
    ids."""
    found = fetch(connection, _SQL["parents"], (start, dead))
    if not found:
        return None
    number, id, state, parallel, tolerated, finalizer, final, final_state, created, finished = found[0]
    (row,) = fetch(connection, _SQL["one"], (id,))
    parent = _job(connection, row) | {
        "priority": row[5],
        "state": _PARENT_STATES[state],
        "created_at": _moment(created),
        "ended_at": _moment(finished),
        "parallel": parallel,
        "tolerated": tolerated,
        "finalizer": bool(finalizer),
        "final_state": final_state and _PART_STATES[final_state],
    }
    parts: list[Item] = []
    jobs: list[tuple[int, Item]] = []
    rows = fetch(connection, _SQL["parts"], (id,))
    if final is not None:
        parent["final_state"] = parent["final_state"] or "out"
        known = {4: 4, 5: 5, 6: 6}.get(final_state, 1)
        rows.append((-1, known, 0, "null", final, 1, 1, 0, None, None, None, None, None))
    for index, stands, size, span, job, attempt, claimed, records, error, data, done, goal, at in rows:
        part: Item = {
            "index": index, "span": msgspec.Raw(span.encode()), "size": size, "state": _PART_STATES[stands],
            "attempt": attempt, "claimed": bool(claimed), "records": records, "error": error,
        }  # fmt: skip
        if data is not None:
            part["checkpoint"] = _checkpoint(data, done, goal, at)
        if job is not None and stands in (1, 5):  # released, or dead: the others are history
            for own in fetch(connection, _SQL["one"], (job,)):
                item = _job(connection, own)
                jobs.append((job, item))
                part |= {"job": item["key"], "attempt": own[10]}
        parts.append(part)
    return number, id, parent, parts, jobs


def leaving_keys(connection: apsw.Connection, start: str, limit: int) -> tuple[list[Item], list[Item]]:
    """The next idempotency keys; and, with the first of them, the deaths of unique keys."""
    keys = [
        {"key": key, "at": _moment(at), "job": job}
        for key, at, job in fetch(connection, _SQL["keys"], (start, limit))
    ]
    deaths = [] if start else fetch(connection, _SQL["deaths"])
    return keys, [{"key": key, "at": _moment(at), "deaths": n} for key, at, n in deaths]


def last_jobs(connection: apsw.Connection) -> dict[str, str]:
    """The last job of each schedule, as it is known elsewhere."""
    return dict(fetch(connection, _SQL["last_jobs"]))


def _job(connection: apsw.Connection, row: tuple[Any, ...]) -> Item:
    (
        key, _, _, id, queue, priority, state, task, payload, options, attempt, deaths, enqueued_at, run_at,
        touched_at, reason, errors, data, done, total, at, rerun, in_turn,
    ) = row  # fmt: skip
    kept: Item = msgspec.json.decode(options) if options else {}
    item: Item = {
        "key": key, "task": task, "args": msgspec.Raw(payload.encode()), "queue": queue,
        "priority": Priority(priority).name.lower(), "attempt": attempt, "deaths": deaths,
        "enqueued_at": _moment(enqueued_at), "run_at": _moment(run_at), "state": _STATES.get(state, "ready"),
        "in_turn": bool(in_turn),
    }  # fmt: skip
    if part := kept.pop("part", None):
        item["part"] = part
    kept.pop("replay_of", None)  # an id of this store, which means another job elsewhere
    if kept.pop("after", ()):
        edges = fetch(connection, _SQL["edges"], (id,))
        item |= {"after": [edge[0] for edge in edges], "run_at": _moment(edges[0][1]) if edges else None}
    if kept:
        item["options"] = kept
    if errors:
        item["errors"] = msgspec.Raw(errors.encode())
    if data is not None:
        item["checkpoint"] = _checkpoint(data, done, total, at)
    if steps := fetch(connection, _SQL["steps"], (id,)):
        item["steps"] = [_step(*step) for step in steps]
    if stream := fetch(connection, _SQL["stream"], (id, MAX_STREAM)):
        item["stream"] = [_emitted(*emitted) for emitted in stream]
    if waits := fetch(connection, _SQL["waits"], (id,)):
        item["waits"] = [_wait(*wait, is_put_off=state == SCHEDULED) for wait in waits]
    if signals := fetch(connection, _SQL["signals"], (id,)):
        item["signals"] = [_signal(*signal) for signal in signals]
    if keys := fetch(connection, _SQL["signal_keys"], (id,)):
        item["signal_keys"] = [{"key": key, "until": _moment(until)} for key, until in keys]
    if rerun is not None:
        item["rerun"] = _rerun(rerun)
    if state == 5:
        item |= {"reason": reason, "ended_at": _moment(touched_at)}
    return item


def _step(name: str, result: str, code: str, attempt: int, at: float, until: float | None) -> Item:
    return {
        "name": name, "result": msgspec.Raw(result.encode()), "code": code, "attempt": attempt,
        "at": _moment(at), "until": _moment(until),
    }  # fmt: skip


def _emitted(position: int, n: int, run: int, attempt: int, at: float, events: str) -> Item:
    return {
        "position": position, "n": n, "run": run, "attempt": attempt, "at": _moment(at),
        "events": msgspec.Raw(events.encode()),
    }  # fmt: skip


def _wait(
    name: str, signal: str, at: float, until: float | None, shape: str | None, asked: int, *, is_put_off: bool
) -> Item:
    return {
        "name": name, "signal": signal, "at": _moment(at), "until": _moment(until),
        "shape": None if shape is None else msgspec.Raw(shape.encode()),
        "suspended": is_put_off and bool(asked),
    }  # fmt: skip


def _signal(name: str, value: str, at: float) -> Item:
    return {"name": name, "value": msgspec.Raw(value.encode()), "at": _moment(at)}


def _checkpoint(data: str, done: int | None, total: int | None, at: float | None) -> Item:
    return {"data": msgspec.Raw(data.encode()), "done": done, "total": total, "at": at}


def _rerun(text: str) -> Item:
    """An enqueue that is remembered for the end of a job; whom it came after is not there any more."""
    new = decode_new_job(text)
    return {
        "task": new.task, "payload": new.payload, "queue": new.queue, "priority": int(new.priority),
        "delay": new.delay, "run_at": _moment(new.run_at),
        "options": options_json(msgspec.structs.replace(new.options, after=())),
    }  # fmt: skip


def _moment(at: float | None) -> str | None:
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat()
