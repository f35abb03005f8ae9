"""A TCP proxy between a client and PostgreSQL that cuts connections at a chosen point of the protocol.

It reads the messages of the client (type, length, body) just far enough to know which statement is executed.
When it is told to cut at a statement, it either lets the request through, waits until the server says that it
has done everything and is ready for the next one, and then cuts without passing a byte of the answer on
(`answer`), or it cuts before the server has seen the request (`request`). So "after COMMIT was sent" is a
fact here, not a matter of timing. It knows the protocol as drivers use it: Query holds its text, Parse names
one, Bind executes it. Encryption is refused.

It can also turn clients away (`refuse`) and be the dead middle of a half-open connection (`swallow`): it
takes what it is sent, passes nothing on and says nothing. A connection that was swallowed stays so after
`restore`, as one whose state a router has lost; new ones work.
"""

import asyncio
import contextlib
import random
import struct
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Literal, Self

Loses = Literal["answer", "request"]
Mode = Literal["pass", "refuse", "swallow"]
READY = b"Z"
ENCRYPT = struct.pack("!I", 80877103)


@dataclass
class Cut:
    """One cut that is wanted: at the next statement whose text holds `text`."""

    text: str
    loses: Loses = "answer"
    done: asyncio.Event = field(default_factory=asyncio.Event)


class Proxy:
    """Listens on a port of its own and passes everything on, but for the cuts."""

    def __init__(self, host: str, port: int) -> None:
        self._upstream = (host, port)
        self._server: asyncio.Server | None = None
        self._sessions: set[asyncio.Task[None]] = set()
        self._wanted: list[Cut] = []
        self._chance = 0.0
        self._dice = random.Random(0)
        self._marks: tuple[str, ...] = ()
        self._live: set[Session] = set()
        self.mode: Mode = "pass"
        self.port = 0
        self.cuts = 0
        self.attempts = 0
        """Connections that clients have begun, in whatever mode."""

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        for session in self._sessions:
            session.cancel()
        await asyncio.gather(*self._sessions, return_exceptions=True)
        await self._server.wait_closed()

    def cut(self, text: str, loses: Loses = "answer") -> Cut:
        """Cut at the next execution of a statement that holds this text."""
        wanted = Cut(text, loses)
        self._wanted.append(wanted)
        return wanted

    def harass(self, chance: float, *marks: str) -> None:
        """From now on cut one in `1 / chance` executions of statements that hold one of these texts."""
        self._chance, self._marks = chance, marks

    def refuse(self) -> None:
        """Break off every connection, and every new one at once."""
        self.mode = "refuse"
        for session in list(self._live):
            session.break_off()

    def swallow(self) -> None:
        """From now on nothing gets through, in either direction, and nobody is told."""
        self.mode = "swallow"
        for session in self._live:
            session.mute = True

    def restore(self) -> None:
        """Serve new connections again."""
        self.mode = "pass"

    def lead_to(self, port: int) -> None:
        """New connections go to another server, as an address does that was handed over."""
        self._upstream = (self._upstream[0], port)

    def choose(self, sql: str) -> Cut | None:
        """Whether this execution is to be cut, and how."""
        for wanted in self._wanted:
            if wanted.text in sql:
                self._wanted.remove(wanted)
                return wanted
        if any(mark in sql for mark in self._marks) and self._dice.random() < self._chance:
            return Cut(sql, self._dice.choice(["answer", "request"]))
        return None

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._sessions.add(task)
        self.attempts += 1
        session = Session(self, reader, writer)
        self._live.add(session)
        try:
            match self.mode:
                case "pass":
                    await session.run(*self._upstream)
                case "swallow":
                    await session.swallow()
                case "refuse":
                    pass
        except asyncio.CancelledError:
            return  # only we cancel a session, at the very end; the loop would log it as an error
        finally:
            session.break_off()
            self._live.discard(session)
            self._sessions.discard(task)


class Session:
    """One connection of a client."""

    def __init__(self, proxy: Proxy, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.proxy = proxy
        self.client = (reader, writer)
        self.statements: dict[bytes, str] = {}
        self.cut: Cut | None = None
        self.mute = False

    def break_off(self) -> None:
        """End it at once; the other side's end follows."""
        self.client[1].transport.abort()

    async def swallow(self) -> None:
        """Take everything and answer nothing until the client gives up."""
        with contextlib.suppress(OSError):
            while await self.client[0].read(65536):
                pass

    async def run(self, host: str, port: int) -> None:
        try:
            server_reader, server_writer = await asyncio.open_connection(host, port)
        except OSError:
            return
        client_reader, client_writer = self.client
        both = [
            asyncio.create_task(self._pump(client_reader, server_writer, self._from_client, first=True)),
            asyncio.create_task(self._pump(server_reader, client_writer, self._from_server, first=False)),
        ]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in both:
                task.cancel()
            for writer in (client_writer, server_writer):
                # Not closed but broken off: nothing that was held back may still reach anybody.
                writer.transport.abort()
            await asyncio.gather(*both, return_exceptions=True)
            if self.cut is not None:
                self.proxy.cuts += 1
                self.cut.done.set()

    async def _pump(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        judge: Callable[[bytes, bytes], Awaitable[bool]],
        *,
        first: bool,
    ) -> None:
        """Pass messages on one by one until a side ends or the judge says that this is the end."""
        with contextlib.suppress(OSError, asyncio.IncompleteReadError):
            while True:
                kind = b"" if first else await reader.readexactly(1)
                size = await reader.readexactly(4)
                body = await reader.readexactly(struct.unpack("!I", size)[0] - 4)
                if first and body == ENCRYPT:
                    self.client[1].write(b"N")
                    continue
                first = False
                if not await judge(kind, body):
                    return
                if self.mute:
                    continue
                if judge != self._from_server or self.cut is None:
                    writer.write(kind + size + body)
                    await writer.drain()

    async def _from_client(self, kind: bytes, body: bytes) -> bool:
        if kind == b"P":
            name, sql, _ = body.split(b"\0", 2)
            self.statements[name] = sql.decode()
        elif kind in (b"B", b"Q") and self.cut is None:
            text = body.decode() if kind == b"Q" else self.statements.get(body.split(b"\0", 2)[1], "")
            self.cut = self.proxy.choose(text)
            return self.cut is None or self.cut.loses == "answer"
        return True

    async def _from_server(self, kind: bytes, body: bytes) -> bool:
        """After the cut was chosen, the next "ready for query" says that all is done, and ends it."""
        return self.cut is None or kind != READY
