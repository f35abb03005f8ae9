"""Telling other processes that something was committed: an empty datagram to the socket of each that waits.

The sockets are in a folder beside the database (see `wake_folder`). They are reached through an open
descriptor of that folder, since the path of a socket may have 107 bytes only. Nothing depends on them: where
there is no /proc, a file system has no sockets, the folder is not trusted or a datagram does not arrive,
polling finds out (see `wake`).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import secrets
import socket
import threading
from collections import Counter
from collections.abc import Callable
from typing import Final

from windlass.store.sqlite.connections.wake_folder import OPEN_FILES, NotTrusted, WakeFolder, is_socket

TRIES: Final = 5


class Datagrams:
    """The processes that wait for one database file, this one among them."""

    def __init__(self, path: str, on_datagram: Callable[[], None]) -> None:
        """`on_datagram` is called in an event loop that listens, for every datagram or several."""
        self._folder = WakeFolder(path)
        self._on_datagram = on_datagram
        self._lock = threading.Lock()
        self._own = _Own(self._folder)
        self._others = _Others(self._folder)
        self._loops: Counter[asyncio.AbstractEventLoop] = Counter()

    @property
    def listens(self) -> bool:
        """Return whether others can reach this process."""
        with self._lock:
            return self._own.open() is not None

    def join(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen in this loop, which is the running one."""
        with self._lock:
            opened = self._own.open()
            if opened is not None and not self._loops[loop]:
                try:
                    loop.add_reader(opened, self._read)
                except NotImplementedError:
                    self._own.close([])
                    self._own.failed = True
            self._loops[loop] += 1

    def leave(self, loop: asyncio.AbstractEventLoop) -> None:
        """Listen in this loop no more, if nobody else does; it is the running one."""
        with self._lock:
            self._loops[loop] -= 1
            if not self._loops[loop]:
                del self._loops[loop]
                if self._own.socket is not None:
                    loop.remove_reader(self._own.socket)

    def send(self) -> None:
        """Wake the others. Called by any thread."""
        try:
            changed = os.lstat(self._folder.path).st_ctime_ns  # also of a change of its rights
        except OSError:
            return  # nobody waits
        with self._lock:
            self._others.send(changed, self._own.name)

    def close(self) -> None:
        """Be reached no more."""
        with self._lock:
            self._own.close(list(self._loops))
            self._others.close()

    def _read(self) -> None:
        opened = self._own.socket
        with contextlib.suppress(OSError):  # read to the end, or closed meanwhile
            while opened is not None:
                opened.recv(1)
        self._on_datagram()


class _Own:
    """The socket by which others reach this process."""

    def __init__(self, folder: WakeFolder) -> None:
        self.socket: socket.socket | None = None
        self.name = ""
        self.failed = False
        self._folder = folder
        self._pid = 0

    def open(self) -> socket.socket | None:
        """The socket, made when it is first asked for; None where there can be none."""
        for _ in range(TRIES):  # who leaves removes an empty folder, also one that was made just now
            if self.socket is not None or self.failed:
                break
            made = _new_socket()
            try:
                name = f"{os.getpid()}-{secrets.token_hex(3)}"
                self._folder.make()
                folder = self._folder.open()
                try:
                    made.bind(f"{OPEN_FILES}/{folder}/{name}")
                    self._folder.share_socket(folder, name)
                finally:
                    os.close(folder)
            except FileNotFoundError:
                made.close()
            except NotTrusted:
                made.close()
                return None  # until somebody has removed it
            except OSError:
                made.close()
                self.failed = True
            else:
                self.socket, self.name, self._pid = made, name, os.getpid()
        self.failed |= self.socket is None
        return self.socket

    def close(self, loops: list[asyncio.AbstractEventLoop]) -> None:
        """Close it once none of the loops reads from it: each must forget its number before another socket
        gets it."""
        opened, self.socket = self.socket, None
        if opened is None:
            return
        if self._pid == os.getpid():  # in a fork the name is its parent's
            self._folder.remove(self.name)
        self.name = ""
        left = len(loops)

        def stop(loop: asyncio.AbstractEventLoop) -> None:
            nonlocal left
            loop.remove_reader(opened)
            left -= 1
            if not left:
                opened.close()

        for loop in loops:
            try:
                loop.call_soon_threadsafe(stop, loop)
            except RuntimeError:  # it has ended, and its readers with it
                left -= 1
        if not left:
            opened.close()


class _Others:
    """The sockets of the other processes, as they were when the folder last changed."""

    def __init__(self, folder: WakeFolder) -> None:
        self._folder = folder
        self._opened: int | None = None
        self._changed = -1
        self._names: list[str] = []
        self._sender: socket.socket | None = None

    def send(self, changed: int, own: str) -> None:
        """Send a datagram to each; `changed` is when the folder last did."""
        if changed != self._changed and not self._look(changed):
            return
        for name in self._names:
            if name != own:
                self._send_to(name)

    def close(self) -> None:
        """Forget them."""
        if self._sender is not None:
            self._sender.close()
        if self._opened is not None:
            os.close(self._opened)
        self._sender, self._opened, self._changed, self._names = None, None, -1, []

    def _look(self, changed: int) -> bool:
        self.close()
        try:
            self._opened = folder = self._folder.open()
            self._names = [name for name in os.listdir(folder) if is_socket(name, folder)]
        except OSError:
            return False
        self._sender = _new_socket()
        self._changed = changed
        return True

    def _send_to(self, name: str) -> None:
        assert self._sender is not None
        assert self._opened is not None
        try:
            self._sender.sendto(b"", f"{OPEN_FILES}/{self._opened}/{name}")
        except ConnectionRefusedError:  # its process has died, or it is no socket any more
            if is_socket(name, self._opened):
                with contextlib.suppress(OSError):
                    os.unlink(name, dir_fd=self._opened)
        except OSError:
            pass  # it is gone, not ours to wake, or has enough to read and so is awake


def _new_socket() -> socket.socket:
    made = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    made.setblocking(False)
    return made
