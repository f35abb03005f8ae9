"""The label of a worker, `{prefix}-worker-{version}-{id}` [K7], and what it registers in the store. The id is
the one that it was given [K13], else 4 random hex digits."""

from __future__ import annotations

import os
import secrets
import socket
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from windlass.core.abilities import NONE
from windlass.store.records import WorkerInfo

if TYPE_CHECKING:
    from windlass.tasks.task import Task


def make_label(prefix: str = "", version: str = "", given: str = "") -> str:
    """The label of a worker; without a prefix it begins with the host's name, and without a version it has
    none."""
    parts = [prefix.strip() or socket.gethostname(), "worker", version.strip(), given or secrets.token_hex(2)]
    return "-".join(part for part in parts if part)


def worker_info(
    worker: int,
    label: str,
    queues: Iterable[str],
    lease: float,
    tasks: Iterable[Task[..., Any]] = (),
    abilities: frozenset[str] = NONE,
) -> WorkerInfo:
    """Return the record that an identity of this process registers in the store. It publishes the queues of
    its tasks for those who enqueue by name [E5]."""
    return WorkerInfo(
        id=worker,
        label=label,
        host=socket.gethostname(),
        pid=os.getpid(),
        queues=tuple(queues),
        lease=lease,
        tasks={task.name: task.queue for task in tasks},
        abilities=abilities,
    )
