"""The process that survives a test run to clean up after it.

A test run can end in ways that run no clean-up: kill -9, a timeout that exits, a closed terminal. So each
server has a guard: it reads from a pipe whose other end only its owner holds, and when that end closes, for
whatever reason, it stops the server and removes its directory. The owner writes the server's process id at
each start and 0 at each stop. As an unreaped child cannot lose its id to another process, the id that was
written last is safe to signal.
"""

import os
import shutil
import signal
import sys
import time
from pathlib import Path

import psutil

GRACE = 10.0


def alive(pid: int) -> bool:
    """Tell whether the process runs; a dead one that nobody has reaped (some containers) does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def end(pid: int) -> None:
    """Stop the server and its children at once (SIGQUIT), by force if it does not listen."""
    for number in (signal.SIGQUIT, signal.SIGKILL):
        deadline = time.monotonic() + GRACE
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        while time.monotonic() < deadline:
            if not alive(pid):
                return
            time.sleep(0.02)


def main(directory: Path) -> None:
    """Watch the pipe on standard input until it closes, then clean up."""
    # Ctrl-C in a terminal and the end of its session reach every process; the guard must outlive them.
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    pid = 0
    for line in sys.stdin:
        pid = int(line)
    if pid:
        end(pid)
    shutil.rmtree(directory, ignore_errors=True)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
