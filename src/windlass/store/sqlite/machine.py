"""Which machine this is. SQLite's locks and shared memory work within one kernel, so that is what counts.

Containers of one host may have machine ids of their own but share its boot id; a rebooted host has a new boot
id but keeps its machine id. So two workers share a machine when either of the two agrees.
"""

from __future__ import annotations

import platform
import uuid
from pathlib import Path
from typing import NamedTuple


class Machine(NamedTuple):
    """A machine, and the run of its kernel."""

    id: str
    boot: str


def this_machine() -> Machine:
    """The machine this process runs on."""
    # Where a system keeps no machine id, the address of its network card is the next best.
    fallback = f"{platform.node()}-{uuid.getnode():012x}"
    machine = _first_line("/etc/machine-id") or _first_line("/var/lib/dbus/machine-id") or fallback
    return Machine(machine, _first_line("/proc/sys/kernel/random/boot_id") or machine)


def _first_line(path: str) -> str:
    try:
        return Path(path).read_text("ascii").strip()
    except (OSError, UnicodeDecodeError):
        return ""
