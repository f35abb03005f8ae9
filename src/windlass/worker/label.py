"""What a worker is called: `{prefix}-worker-{version}-{id}` [K7], and what the store is told about it. The id
is 4 hex digits of the process's own."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable

from windlass.store.records import WorkerInfo


def make_label(prefix: str = "", version: str = "") -> str:
    """The label of a worker; without a prefix it begins with the host's name, and without a version it has
    none."""
    parts = [prefix.strip() or socket.gethostname(), "worker", version.strip(), secrets.token_hex(2)]
    return "-".join(part for part in parts if part)


def introduce(worker: int, label: str, queues: Iterable[str], lease: float) -> WorkerInfo:
    """What the store is told about an identity of this process."""
    return WorkerInfo(
        id=worker,
        label=label,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=tuple(queues),
        lease=lease,
    )
