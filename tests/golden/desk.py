"""The desk at which lines of transcripts are run: a copy of the fixed store, the command, and a client of the
web, in an event loop that is there for as long as the desk."""

import asyncio
import re
import shlex
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Final

import apsw
import httpx

from tests.cli.kit import windlass
from tests.golden.answers import Pages, broken_up, printed, steady
from tests.golden.filling import Filling
from tests.web.kit import OPERATE, READ, bearer
from windlass import Windlass
from windlass.store.records import EventRecord
from windlass.store.sqlite import SQLiteStore
from windlass.web.app import make_web

FILE: Final = Path("store.db")
URL: Final = f"sqlite:///{FILE}"
SECRET: Final = "of-golden-files-" * 2
HOST: Final = "http://localhost"
ROLES: Final[dict[str, dict[str, str]]] = {"nobody": {}, "read": bearer(READ), "operate": bearer(OPERATE)}
_REQUEST: Final = re.compile(rf"(?:({'|'.join(ROLES)}) )?([A-Z]+) (\S+)(?: (.*))?")
_BULK: Final = re.compile(r"\b[0-9a-f]{12}\b")


class FixedStore:
    """The fixed store, filled once and kept in memory."""

    def __init__(self) -> None:
        ids = asyncio.run(self._fill())
        self.content: Final = FILE.read_bytes()
        app = Windlass(URL, secret=SECRET)
        link = app.signal_url(ids["waiting"], "approve", {"ok": True, "amount": 3}, base=HOST)
        self.names: Final[dict[str, object]] = {**ids, "link": link.removeprefix(HOST)}
        desk = Desk(self, Pages())
        self._overview = broken_up(desk.ask("GET", "/", "operate").text)
        desk.close()

    async def _fill(self) -> dict[str, int]:
        store = SQLiteStore(FILE)
        await store.open()
        ids = await Filling(store).fill()
        await store.close()
        return ids

    def begin(self) -> "Callable[[], Desk]":
        """Begin a transcript; the answer opens a desk for a line of it."""
        pages = Pages(self._overview)
        return lambda: Desk(self, pages)


class Desk:
    """One copy of the fixed store."""

    def __init__(self, fixed: FixedStore, pages: Pages) -> None:
        for path in Path().glob(f"{FILE}*"):
            path.unlink()
        FILE.write_bytes(fixed.content)
        self.names = dict(fixed.names)
        self._pages = pages
        self._runner = asyncio.Runner()
        self._stack = AsyncExitStack()
        self._visitor: httpx.AsyncClient | None = None
        self._store = SQLiteStore(FILE)
        self._newest = self._runner.run(self._open())
        self._watcher = apsw.Connection(str(FILE))
        self._version = self._watcher.pragma("data_version")

    def close(self) -> None:
        """Leave."""
        self._watcher.close()
        self._runner.run(self._stack.aclose())
        self._runner.close()

    def is_fresh(self) -> bool:
        """Tell whether no line has changed the store."""
        return bool(self._watcher.pragma("data_version") == self._version)

    def answer(self, line: str) -> str:
        """The answer to a command or to a request, and what either wrote into the timeline."""
        program, _, arguments = line.partition(" ")
        answer = self._command(arguments) if program == "windlass" else self._request(line)
        answer = steady(answer.replace(str(Path.cwd()), "").rstrip("\n"))
        return answer + self._runner.run(self._timeline())

    def ask(self, method: str, path: str, role: str, body: str = "") -> httpx.Response:
        """Send a request."""
        return self._runner.run(self._ask(method, path, role, body))

    def _command(self, arguments: str) -> str:
        done = windlass(*shlex.split(arguments), WINDLASS_DATABASE_URL=URL, WINDLASS_LEASE="1s")
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            raise done.exception
        errors = "".join(f"stderr: {line}\n" for line in done.stderr.splitlines())
        return printed(done.stdout) + errors + (f"exit {done.exit_code}" if done.exit_code else "")

    def _request(self, line: str) -> str:
        found = _REQUEST.fullmatch(line)
        assert found is not None, f"this is no command and no request: {line}"
        role, method, path, body = found.groups("")
        text = self._pages.shown(path, self.ask(method, path, role or "operate", body))
        if "/bulk" in path:
            self._runner.run(self._bulk_ended())
            if ids := _BULK.findall(text):
                self.names["bulk"] = ids[0]
            text = _BULK.sub("{bulk}", text)
        return text

    async def _ask(self, method: str, path: str, role: str, body: str = "") -> httpx.Response:
        if self._visitor is None:
            app = Windlass(store=self._store, secret=SECRET)
            web = make_web(app, operate=[OPERATE], read=[READ], stream=0.0)
            transport = httpx.ASGITransport(app=web, client=("127.0.0.1", 4711))
            await self._stack.enter_async_context(app)
            visitor = httpx.AsyncClient(transport=transport, base_url=HOST)
            self._visitor = await self._stack.enter_async_context(visitor)
        kind = "json" if path.startswith("/api") else "x-www-form-urlencoded"
        headers = ROLES[role] | ({"content-type": f"application/{kind}"} if body else {})
        return await self._visitor.request(method, path, headers=headers, content=body.encode() or None)

    async def _bulk_ended(self) -> None:
        """Wait until no bulk operation is under way."""
        async with asyncio.timeout(30):
            while '"running"' in (await self._ask("GET", "/api/bulk", "read")).text:  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    async def _open(self) -> int:
        await self._store.open()
        self._stack.push_async_callback(self._store.close)
        return max((event.id for event in await self._store.events(limit=1)), default=0)

    async def _timeline(self) -> str:
        """What was written since the last line."""
        events = [event for event in await self._store.events() if event.id > self._newest]
        self._newest = max((event.id for event in events), default=self._newest)
        return "".join(f"\n{_told(event)}" for event in reversed(events))


def _told(event: EventRecord) -> str:
    about = {"job": event.job, "queue": event.queue, "task": event.task}
    words = "".join(f" {name} {value}" for name, value in about.items() if value)
    return f"timeline: {event.kind}{words} by {event.worker}: {event.text}"
