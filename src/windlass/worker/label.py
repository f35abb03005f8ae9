"""What a worker is called: `{prefix}-worker-{version}-{id}` [K7]. The id is 4 hex digits of the process's
own."""

from __future__ import annotations

import secrets
import socket


def make_label(prefix: str = "", version: str = "", id: str | None = None) -> str:
    """The label of a worker; without a prefix it begins with the host's name, and without a version it has
    none."""
    parts = [prefix.strip() or socket.gethostname(), "worker", version.strip(), id or secrets.token_hex(2)]
    return "-".join(part for part in parts if part)
