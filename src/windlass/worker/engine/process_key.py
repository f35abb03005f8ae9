"""The key of a process on its machine, so that a later one can prove that it is gone [K13].

A process id alone proves nothing: it is used again, other machines and containers have the same ones, and a
host's name may be anybody's. So the key names the run of the kernel, the namespace in which the id counts,
the id, and when the process began. Where a system does not tell these, the key is empty and proves nothing.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

_PROC: Final = Path("/proc")
_STARTED: Final = 19
"""Which field behind the name in /proc/PID/stat says when a process began, in ticks since the boot."""
_ENDED: Final = ("Z", "X")
"""States of what is left of a process that has ended."""


def process_key() -> str:
    """The key of this process."""
    place, stat = _place(), _stat(os.getpid())
    return f"{place}/{os.getpid()}/{stat[_STARTED]}" if place and stat else ""


def is_gone(key: str) -> bool:
    """Return whether the process with this key has ended, for sure. False: it runs, or that cannot be told
    here."""
    rest, _, began = key.rpartition("/")
    place, _, process = rest.rpartition("/")
    if not place or place != _place():
        return False
    stat = _stat(int(process))
    if stat is None:
        return not _exists(int(process))
    return stat[0] in _ENDED or stat[_STARTED] != began


def _place() -> str:
    """The run of this kernel, and the namespace of process ids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except (OSError, UnicodeDecodeError):
        return ""


def _stat(process: int) -> list[str] | None:
    """Return the kernel's fields of a process, from its state on; None where there are none."""
    try:
        # The name may hold blanks and brackets.
        return (_PROC / str(process) / "stat").read_text("utf-8", "replace").rpartition(")")[2].split()
    except OSError:
        return None


def _exists(process: int) -> bool:
    """Also of one that is hidden here, as those of other users may be (hidepid, ProtectProc)."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except OSError:
        return True
    return True
