"""Forks: every line of this process is told before and after one. See `line` for why."""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Watched(Protocol):
    """What has to know of a fork."""

    def before_fork(self) -> None: ...

    def after_fork_in_parent(self) -> None: ...

    def after_fork_in_child(self) -> None: ...


_watched: WeakSet[Watched] = WeakSet()
_told: list[Watched] = []
_one_at_a_time = threading.Lock()


def watch(one: Watched) -> None:
    """Tell this object of every fork, for as long as it lives."""
    _watched.add(one)


def _before() -> None:
    _one_at_a_time.acquire()
    _told[:] = list(_watched)
    for one in _told:
        one.before_fork()


def _in_parent() -> None:
    for one in _told:
        one.after_fork_in_parent()
    _told.clear()
    _one_at_a_time.release()


def _in_child() -> None:
    for one in list(_watched):
        one.after_fork_in_child()
    _told.clear()
    if _one_at_a_time.locked():
        _one_at_a_time.release()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before, after_in_parent=_in_parent, after_in_child=_in_child)
