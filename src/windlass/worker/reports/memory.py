"""How much memory this process uses."""

from __future__ import annotations

import os
import resource
import sys


def used_memory() -> int:
    """Bytes of memory in use; where the system does not tell, the most there ever was."""
    try:
        with open("/proc/self/statm", encoding="ascii") as statm:
            return int(statm.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
