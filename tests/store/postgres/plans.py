"""The plans that PostgreSQL really used, nested ones included, as auto_explain tells them to the client."""

import json
import re
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from tests.store.postgres.kit import Session

LOGS = re.compile(r"(ready|claim|outcome)_\d")
SETTINGS = {
    "auto_explain.log_min_duration": "0",
    "auto_explain.log_nested_statements": "on",
    "auto_explain.log_analyze": "on",
    "auto_explain.log_timing": "off",
    "auto_explain.log_format": "json",
    "client_min_messages": "log",
}


@dataclass(frozen=True)
class Scan:
    """One scan of a partition of a log, and how many of its rows it looked at."""

    table: str
    kind: str
    touched: float
    query: str


class Plans:
    """The plans of one session, in the order in which the statements ended."""

    def __init__(self) -> None:
        self._found: list[dict[str, Any]] = []

    def note(self, _connection: Any, message: Any) -> None:
        """Take a plan out of a message, if there is one in it."""
        _, mark, text = message.message.partition("plan:\n")
        if mark:
            self._found.append(json.loads(text))

    def scans(self, tables: re.Pattern[str] = LOGS) -> list[Scan]:
        """Every scan of a log partition, or of these tables."""
        return [
            Scan(node["Relation Name"], node["Node Type"], touched(node), plan["Query Text"])
            for plan, node in self._nodes()
            if tables.fullmatch(node.get("Relation Name", "")) and node["Node Type"] != "ModifyTable"
        ]

    def kinds(self) -> set[str]:
        """The kinds of nodes in plans that scan a log partition."""
        logs = {id(plan) for plan, node in self._nodes() if LOGS.fullmatch(node.get("Relation Name", ""))}
        return {node["Node Type"] for plan, node in self._nodes() if id(plan) in logs}

    def blocks(self, table: str) -> float:
        """How many blocks the index scans of a table have read; needs auto_explain.log_buffers."""
        return sum(
            float(node["Shared Hit Blocks"] + node["Shared Read Blocks"])
            for _, node in self._nodes()
            if node.get("Relation Name") == table and node["Node Type"].startswith("Index")
        )

    def _nodes(self) -> Iterator[tuple[dict[str, Any], dict[str, Any]]]:
        for plan in self._found:
            nodes = [plan["Plan"]]
            while nodes:
                node = nodes.pop()
                nodes += node.get("Plans", [])
                yield plan, node


def touched(node: dict[str, Any]) -> float:
    """Rows that a scan returned or threw away, over all its loops."""
    rows = node.get("Actual Rows", 0) + node.get("Rows Removed by Filter", 0)
    return float(rows * node.get("Actual Loops", 0))


async def explained(session: Session) -> None:
    """Make a session tell its plans."""
    await session.run("LOAD 'auto_explain'")
    for name, value in SETTINGS.items():
        await session.run(f"SET {name} = '{value}'")


@asynccontextmanager
async def plans(session: Session) -> AsyncIterator[Plans]:
    """The plans of what the session runs meanwhile."""
    found = Plans()
    session.connection.add_log_listener(found.note)
    try:
        yield found
    finally:
        session.connection.remove_log_listener(found.note)


async def blocks(session: Session, sql: str, *args: object) -> int:
    """How many blocks a statement looks at, with all that it calls."""
    found = json.loads(await session.value(f"EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON) {sql}", *args))
    plan = found[0]["Plan"]
    return int(plan["Shared Hit Blocks"]) + int(plan["Shared Read Blocks"])
