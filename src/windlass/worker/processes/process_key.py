"""What a process is known by on its machine, so that a later one can prove that it is gone [K13].

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


def process_key() -> str:
    """The key of this process."""
    began = _began(os.getpid())
    place = _place()
    return f"{place}/{os.getpid()}/{began}" if place and began else ""


def is_gone(key: str) -> bool:
    """Whether the process with this key has ended, for sure. False: it runs, or nobody here can tell."""
    place, _, process = key.rpartition("/")[0].rpartition("/")
    began = key.rpartition("/")[2]
    if not place or place != _place():
        return False
    return _began(int(process)) != began


def _place() -> str:
    """The run of this kernel, and the namespace of process ids."""
    try:
        boot = (_PROC / "sys/kernel/random/boot_id").read_text("ascii").strip()
        return f"{boot}/{(_PROC / 'self/ns/pid').readlink()}"
    except (OSError, UnicodeDecodeError):
        return ""


def _began(process: int) -> str | None:
    """When it began; None where there is no such process, or only what is left of one that has ended."""
    try:
        # The name may hold blanks and brackets.
        fields = (_PROC / str(process) / "stat").read_bytes().rpartition(b")")[2].split()
    except OSError:
        return None
    return None if fields[0] in (b"Z", b"X") else fields[_STARTED].decode()
