"""The program of a fork server: `python -m windlass.worker.processes.fork_server_program SOCKET APP`, started
by a supervisor. It imports the app, and forks a child of it whenever it is asked to.

It does nothing else, so that what is forked is an app as it is after its import: no loop, no connection, no
second thread. What the import has left that a fork would break makes it refuse; then children are started
anew, one by one. It ends when its supervisor does.

A child is forked twice: what is between ends at once, so that the child is an orphan, and the supervisor
adopts it. Thus the supervisor waits for it and kills it as if it had started it, and a fork server may die
without harm to any child.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import gc
import os
import signal
import socket
import ssl
import stat
import sys
import threading
from pathlib import Path
from typing import Final

import msgspec

from windlass.core.counts import plural
from windlass.errors import WindlassError
from windlass.running.loopthread import prefer_uvloop
from windlass.store.factory import read_ahead
from windlass.tasks.loading import load_app
from windlass.worker.processes.adoption import end_with_parent
from windlass.worker.processes.child import run_child, set_up
from windlass.worker.processes.fork_server_messages import FORK, Forked, Loaded
from windlass.worker.reports.status_memory import StatusMemory

NAME: Final = "windlass-forker"
SHOWN: Final = 5
OWN_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)
"""Signals that a terminal or an init system sends to all processes: a fork server leaves after its
supervisor."""


def main() -> None:
    """Import, then fork on request until the supervisor is gone."""
    supervisor = os.getppid()
    with contextlib.suppress(OSError):
        end_with_parent()  # the import may take its time, or for ever
    line = socket.socket(fileno=int(sys.argv[1]))
    set_up(NAME)
    before = _descriptors()
    try:
        app = load_app(sys.argv[2])
        app.discover(*app.settings.imports)
        # What each child would import, read or make first: the driver and the statements of its store, 3 MiB
        # of tables of OpenSSL.
        read_ahead(app.settings.database_url)
        prefer_uvloop()
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    except WindlassError:
        sys.exit(1)  # a child that is started anew will say why
    refusal = _threads() or _opened(before)
    child: tuple[socket.socket, StatusMemory] | None = None
    with contextlib.suppress(OSError):  # the supervisor is gone
        line.send(msgspec.json.encode(Loaded(refusal)))
        child = None if refusal else _serve(line)
    if child is not None:
        run_child(*child, supervisor, app)
    os._exit(0)  # what the app would do at its exit is for those that worked


def _serve(line: socket.socket) -> tuple[socket.socket, StatusMemory] | None:
    """Fork on request. Returns in each child with what it was given; in the fork server when the supervisor
    is gone, unless that raises OSError."""
    theirs = {number: signal.signal(number, signal.SIG_IGN) or signal.SIG_DFL for number in OWN_SIGNALS}
    gc.collect()
    gc.freeze()  # a collection would write to every object, and so copy every page
    while True:
        word, descriptors, _, _ = socket.recv_fds(line, len(FORK), 2, socket.MSG_CMSG_CLOEXEC)
        if not word:
            return None
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(OSError, ValueError, AttributeError):
                stream.flush()  # or each child would write it once more
        try:
            pid = _fork_orphan()
        except OSError as error:
            answer = Forked(0, str(error))
        else:
            if pid == 0:
                line.close()
                for number, handler in theirs.items():
                    signal.signal(number, handler)
                return socket.socket(fileno=descriptors[0]), StatusMemory(descriptors[1])
            answer = Forked(pid)
        for descriptor in descriptors:
            os.close(descriptor)
        line.send(msgspec.json.encode(answer))


def _fork_orphan() -> int:
    """Fork by way of a process that ends at once; 0 in the child. When the fork server has the answer, the
    child has the parent that it keeps."""
    told, tell = os.pipe()
    with open(told, "rb", buffering=0) as answer:
        try:
            between = os.fork()
            if between == 0:
                _fork_and_tell(tell)
                return 0
        finally:
            os.close(tell)
        with contextlib.suppress(ChildProcessError):  # the app ignores SIGCHLD
            os.waitpid(between, 0)
        pid = int(answer.read(64) or -errno.EAGAIN)
    if pid < 0:
        raise OSError(-pid, os.strerror(-pid))
    return pid


def _fork_and_tell(tell: int) -> None:
    """Fork, tell the fork server what came of it, and end. Returns in the child alone."""
    try:
        pid = os.fork()
    except OSError as error:
        pid = -(error.errno or errno.EAGAIN)
    if pid:
        try:
            os.write(tell, str(pid).encode())
        finally:
            os._exit(0)


# -- what a fork would break ------------------------------------------------------------------------------


def _threads() -> str:
    """The threads besides this one; a child would have none of them, and maybe a lock that one held."""
    main = threading.get_native_id()
    python = {thread.native_id: thread.name for thread in threading.enumerate()}
    names = []
    for task in map(int, os.listdir("/proc/self/task")):
        if task != main:
            with contextlib.suppress(OSError):  # it has ended
                comm = Path(f"/proc/self/task/{task}/comm").read_text("utf-8", "replace").strip()
                names.append(python.get(task, "not one of Python's" if comm == NAME else comm))
    return f"has started {plural(len(names), 'thread')} ({_some(names)})" if names else ""


def _descriptors() -> dict[int, str]:
    """Return the open descriptors and their names."""
    found = {}
    for number in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # that of the listing is closed by now
            found[int(number)] = os.readlink(f"/proc/self/fd/{number}")
    return found


def _opened(before: dict[int, str]) -> str:
    """Name what is open now and was not before; all children would share it: one connection to a server, one
    lock on a file of SQLite, one place where a file is read."""
    found = []
    for number, name in _descriptors().items():
        mode = os.fstat(number).st_mode
        appends = stat.S_ISREG(mode) and fcntl.fcntl(number, fcntl.F_GETFL) & os.O_APPEND  # a log
        if before.get(number) != name and not (appends or stat.S_ISCHR(mode) or stat.S_ISDIR(mode)):
            found.append(name)
    return f"has left something open ({_some(found)})" if found else ""


def _some(names: list[str]) -> str:
    return ", ".join(sorted(names)[:SHOWN]) + (" …" if len(names) > SHOWN else "")


if __name__ == "__main__":
    main()
