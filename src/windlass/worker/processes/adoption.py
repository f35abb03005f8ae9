"""Adopting processes on Linux, for those who have others fork for them: to adopt a process that was forked
elsewhere, and to end with a parent. Where a system knows neither, `adopting` says so, and nobody forks.

An orphan goes to the nearest ancestor that is a subreaper, else to process 1. A supervisor is one only while
a fork is under way: else it would collect whatever its children leave behind, and would have to reap it.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
from collections.abc import Iterator
from typing import Final

_PDEATHSIG: Final = 1
_SET_SUBREAPER: Final = 36
_GET_SUBREAPER: Final = 37


class Adopted:
    """A child that another process forked and that is ours now; like `subprocess.Popen` for one of our own.
    Only this reaps it, so until then its number cannot pass to a stranger."""

    def __init__(self, pid: int) -> None:
        self.pid: Final = pid
        self.returncode: int | None = None
        """Its exit code once it is reaped, negative where a signal ended it."""

    @property
    def is_ours(self) -> bool:
        """Return whether this process is its parent."""
        try:
            os.waitid(os.P_PID, self.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def poll(self) -> int | None:
        """Reap it if it has ended; its exit code then."""
        return self._reap(os.WNOHANG)

    def wait(self) -> int:
        """Wait for its end, and reap it."""
        code = self._reap(0)
        assert code is not None
        return code

    def kill(self) -> None:
        """End it, whatever it does."""
        if self.poll() is None:
            os.kill(self.pid, signal.SIGKILL)

    def _reap(self, flags: int) -> int | None:
        if self.returncode is None:
            try:
                pid, status = os.waitpid(self.pid, flags)
            except ChildProcessError:  # somebody ignores SIGCHLD: then nobody learns the code
                pid, status = self.pid, 0
            if pid == self.pid:
                self.returncode = os.waitstatus_to_exitcode(status)
        return self.returncode


@contextlib.contextmanager
def adopting() -> Iterator[None]:
    """While this lasts, orphans among the descendants of this process become its children. Raises OSError."""
    before = ctypes.c_int()
    _prctl(_GET_SUBREAPER, ctypes.addressof(before))
    _prctl(_SET_SUBREAPER, 1)
    try:
        yield
    finally:
        _prctl(_SET_SUBREAPER, before.value)


def end_with_parent() -> None:
    """Have the kernel kill this process when its parent dies. What it forks does not inherit that."""
    _prctl(_PDEATHSIG, signal.SIGKILL)


def _prctl(option: int, value: int) -> None:
    try:
        prctl = ctypes.CDLL(None, use_errno=True).prctl
    except AttributeError:
        raise OSError("the system has no prctl") from None
    if prctl(option, ctypes.c_ulong(value), *[ctypes.c_ulong(0)] * 3) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
