"""A plugin for pytest that tries faults of `sql_mutation.py` instead of running the tests that it collected.

Each process has one server and one copy of the package. For each fault it plants it in the copy, forks, and
the child runs the tests that call the function until one fails: the parent has nothing open then but the
server. What the child leaves in the server is dropped. Several processes share the faults of one plan: who
makes the file of a fault tries it.
"""

import gc
import json
import os
import signal
import time
from collections import Counter
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import Any, Final

import psycopg
import pytest
from psycopg import sql

from tests.postgres import Server
from tests.postgres_install import Version
from tests.verify.sql_mutation import within
from windlass.store.postgres.schema import functions
from windlass.store.postgres.schema.sources import definitions

FOLDER: Final = Path(os.environ["SQL_FOLDER"])
RUNNING: Final = FOLDER / "running"
"""The file in which a child says which test it runs, and since when."""
LONG: Final = 3.0
GUARDS: Final = "tests/store/postgres/schema/test_guards.py"
"""Asks all functions at once for what the faults of kind "fence" remove."""
PATIENCE: Final = 15.0
"""Seconds beyond five times its own after which a test counts as one that waits for what the fault keeps
from it."""


@pytest.hookimpl(tryfirst=True)
def pytest_runtestloop(session: pytest.Session) -> bool:
    """Try every fault of the plan that nobody else tries."""
    import tests.conftest

    plan = json.loads((FOLDER.parent / "plan.json").read_text(encoding="utf-8"))
    file = Path(plan["file"])
    items = {item.nodeid: item for item in session.items}
    guards = {name: 0.5 for name in items if name.startswith(GUARDS)}
    fails: set[str] = set()
    gc.collect()
    gc.freeze()  # a child copies what it touches
    with Server(18, fsync=False) as server:

        def same(version: Version, *, fsync: bool) -> AbstractContextManager[Server]:
            return nullcontext(server) if version == server.version else Server(version, fsync=fsync)

        setattr(tests.conftest, "Server", same)  # noqa: B010
        for fault in plan["faults"]:
            with suppress(FileExistsError):
                (FOLDER.parent / "begun" / fault["key"]).touch(exist_ok=False)
                lines = file.read_text(encoding="utf-8").splitlines() if file.exists() else []
                known = [row for row in map(json.loads, lines) if row["noticed"]]
                calls = {test: s for test, s in plan["calls"][fault["function"]].items() if test in items}
                chosen = within(likely_first(calls, fault, known), plan["seconds"])
                if fault["kind"] == "fence":
                    chosen = guards | chosen
                for test in fails & chosen.keys():
                    del chosen[test]
                row, left = _judged(server, fault, items, chosen, {row["by"] for row in known})
                fails |= chosen.keys() - left.keys()
                with file.open("a", encoding="utf-8") as out:  # one write, so processes do not tear lines
                    out.write(json.dumps(fault | row | {"seconds": plan["seconds"]}) + "\n")
    return True


def likely_first(
    calls: dict[str, float], fault: dict[str, Any], known: list[dict[str, Any]]
) -> dict[str, float]:
    """Put the tests first that noticed other faults of this function, then those that noticed any of the
    same room; at last those that take long."""
    kills: Counter[str] = Counter()
    for row in known:
        if row["path"] == fault["path"]:
            kills[row["by"]] += 100 if row["function"] == fault["function"] else 1
    order = sorted(calls, key=lambda test: (-kills[test] / calls[test], calls[test] > LONG))
    return {test: calls[test] for test in order}


def _judged(
    server: Server,
    fault: dict[str, Any],
    items: dict[str, pytest.Item],
    chosen: dict[str, float],
    trusted: set[str],
) -> tuple[dict[str, Any], dict[str, float]]:
    """Try a fault. A test that fails without it, too, has noticed nothing: the others are tried again, and
    returned."""
    left = dict(chosen)
    while True:
        row = _tried(server, fault, items, left)
        by = row["by"]
        nothing = fault | {"begin": 0, "end": 0, "to": ""}
        if not by or by in trusted or not _tried(server, nothing, items, {by: left[by]})["noticed"]:
            return row, left
        del left[by]


def _tried(
    server: Server, fault: dict[str, Any], items: dict[str, pytest.Item], chosen: dict[str, float]
) -> dict[str, Any]:
    """Plant a fault, run tests in a child, and put everything back as it was."""
    planted, began = FOLDER / "src" / fault["path"], time.monotonic()
    text = planted.read_text(encoding="utf-8")
    planted.write_text(text[: fault["begin"]] + fault["to"] + text[fault["end"] :], encoding="utf-8")
    RUNNING.write_text("", encoding="utf-8")
    child = os.fork()
    if child == 0:
        _run([items[name] for name in chosen])
    status = _ended(child, chosen)
    planted.write_text(text, encoding="utf-8")
    _clear(server)
    by = "" if status == 0 else RUNNING.read_text(encoding="utf-8")
    return {
        "noticed": by != "",
        "by": by,
        "hung": status is None,
        "took": round(time.monotonic() - began, 1),
    }


def _run(chosen: list[pytest.Item]) -> None:
    """Run tests until one fails; never returns."""
    status = 2
    with suppress(BaseException):
        os.setsid()
        for read in (definitions, functions):  # without the fault, when the tests were collected
            read.cache_clear()
        session = chosen[0].session
        other = next(item for item in session.items if item is not chosen[-1])
        for item, after in zip(chosen, [*chosen[1:], other], strict=True):
            RUNNING.write_text(item.nodeid, encoding="utf-8")
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=after)
            if session.testsfailed:
                break
        status = min(1, session.testsfailed)
    os._exit(status)


def _ended(child: int, chosen: dict[str, float]) -> int | None:
    """Return the status of a child, None if one of its tests took too long, and end what it left."""
    done = how = 0
    try:
        while not done:
            seconds = chosen.get(RUNNING.read_text(encoding="utf-8"), 0.0)
            if time.time() - RUNNING.stat().st_mtime > PATIENCE + 5 * seconds:
                break
            done, how = os.waitpid(child, os.WNOHANG)
            time.sleep(0.01)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        if not done:
            os.waitpid(child, 0)
    return os.waitstatus_to_exitcode(how) if done else None


def _clear(server: Server) -> None:
    """Drop the databases that a child made; where that fails, begin with a new server."""
    try:
        with psycopg.connect(server.dsn(), autocommit=True) as connection:
            rows = connection.execute("SELECT datname FROM pg_database WHERE datname LIKE 'windlass%'")
            for (name,) in rows.fetchall():
                connection.execute(
                    sql.SQL("DROP DATABASE IF EXISTS {} WITH (FORCE)").format(sql.Identifier(name))
                )
    except psycopg.Error:
        server.close()
        server.start()
