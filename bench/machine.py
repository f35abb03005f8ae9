"""On what the figures were measured: versions and settings, since a rate means nothing without them."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import sys
from pathlib import Path
from typing import Any, Final

SERVER_SETTINGS: Final = (
    "fsync",
    "synchronous_commit",
    "full_page_writes",
    "wal_level",
    "wal_compression",
    "shared_buffers",
    "max_wal_size",
    "autovacuum",
    "jit",
)


def machine() -> dict[str, Any]:
    """The machine, the interpreter and the drivers."""
    import apsw

    return {
        "os": f"{platform.system()} {platform.release()} {platform.machine()}",
        "processor": _processor(),
        "cores": _cores(),
        "python": platform.python_version(),
        "asyncpg": _installed("asyncpg"),
        "uvloop": _installed("uvloop"),
        "apsw": apsw.apsw_version(),
        "sqlite": apsw.sqlite_lib_version(),
    }


async def server_settings(connection: Any) -> dict[str, str]:
    """The settings of a PostgreSQL server that decide how fast it can be."""
    rows = await connection.fetch(
        "SELECT name, current_setting(name) AS value FROM unnest($1::text[]) AS name", list(SERVER_SETTINGS)
    )
    return {row["name"]: row["value"] for row in rows}


def _cores() -> int:
    """The cores this process may use; on a shared machine fewer than it has."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def _processor() -> str:
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text("utf-8", "replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or "unknown"


def _installed(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None
