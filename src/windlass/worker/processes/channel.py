"""How a supervisor and its child talk: one JSON message a line, each way, over a socket that the child
inherits.

When one side is gone the other reads the end of the stream, so neither has to poll for a death.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Final, TypeAlias

import msgspec

from windlass.store.records import WakeUp
from windlass.worker.engine.assignment import Assignment

UNREAD: Final = 2**14
"""Bytes that may wait to be read before new slots and wake-ups are not sent any more."""


class Start(msgspec.Struct, frozen=True, tag=True):
    """To the child: what to be."""

    app: str
    label: str
    queues: dict[str, int | None]


class Assign(msgspec.Struct, frozen=True, tag=True):
    """To the child: its new slots and how its queues stand."""

    assignment: Assignment


class Wake(msgspec.Struct, frozen=True, tag=True):
    """To the child: a wake-up for it."""

    wake_up: WakeUp


class Cancel(msgspec.Struct, frozen=True, tag=True):
    """To the child: these jobs should be cancelled."""

    jobs: list[int]


class Lose(msgspec.Struct, frozen=True, tag=True):
    """To the child: this identity is dead, or must be taken for dead."""

    worker: int


class Shutdown(msgspec.Struct, frozen=True, tag=True):
    """To the child: stop claiming, finish what runs, leave."""

    stacks: bool = False
    """True if to log first where its tasks stand."""


class StopNow(msgspec.Struct, frozen=True, tag=True):
    """To the child: hand everything back and leave now."""


class Ready(msgspec.Struct, frozen=True, tag=True):
    """From the child: the app is loaded, its start hooks have run, and the store has registered it."""


class Failed(msgspec.Struct, frozen=True, tag=True):
    """From the child: it cannot start, and this is why."""

    message: str


class Began(msgspec.Struct, frozen=True, tag=True):
    """From the child: send heartbeats for this identity."""

    worker: int


class Ended(msgspec.Struct, frozen=True, tag=True):
    """From the child: this identity holds nothing any more."""

    worker: int


class Recycle(msgspec.Struct, frozen=True, tag=True):
    """From the child: it is leaving, for this reason, and wants to be replaced."""

    reason: str
    memory: int = 0
    """The bytes it uses, where these are the reason."""


Message: TypeAlias = (
    Start | Assign | Wake | Cancel | Lose | Shutdown | StopNow | Ready | Failed | Began | Ended | Recycle
)
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(Message).decode


class Channel:
    """One end of the line."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def over(cls, end: socket.socket) -> Channel:
        """The channel over this socket."""
        end.setblocking(False)
        return cls(*await asyncio.open_connection(sock=end, limit=2**24))

    def send(self, message: Message) -> None:
        """Send a message, if the other side is still there. Slots and wake-ups are left out while the other
        side does not read: it gets newer slots when it does, and looks for work by itself. A process that was
        stopped must not fill our memory."""
        with contextlib.suppress(OSError, RuntimeError):
            if isinstance(message, Assign | Wake) and self._writer.transport.get_write_buffer_size() > UNREAD:
                return
            self._writer.write(_encode(message) + b"\n")

    async def messages(self) -> AsyncIterator[Message]:
        """Yield the messages of the other side, until it is gone."""
        with contextlib.suppress(OSError):
            while line := await self._reader.readline():
                yield _decode(line)

    async def close(self) -> None:
        """Hang up, after what was said has gone out."""
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.drain()
        self._writer.close()
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(1):
                await self._writer.wait_closed()
