"""What the command's tests hold in their hands: the command itself, and ways to bring a store into a state.

The command runs its own event loop, so these tests are synchronous and visit the store between commands.
"""

import asyncio
import json
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from click.testing import CliRunner, Result

from tests.conformance.kit import Rig
from windlass.cli import main
from windlass.store.factory import make_store

T = TypeVar("T")


def windlass(*arguments: str, stdin: str | None = None, **environ: str) -> Result:
    """Run the command in this process. Nothing from outside says where jobs live, or how wide to print."""
    outside = dict.fromkeys(("WINDLASS_DATABASE_URL", "DATABASE_URL", "COLUMNS"))
    return CliRunner().invoke(main, arguments, input=stdin, env={**outside, **environ}, prog_name="windlass")


class RealTime:
    """The clock of a store that nobody moves."""

    async def advance(self, seconds: float) -> None:
        raise AssertionError("this store's clock cannot be moved")


class Desk:
    """One database, the command pointed at it, and a door to its store."""

    def __init__(self, url: str, schema: str = "windlass") -> None:
        self.url = url
        self.schema = schema

    def run(self, *arguments: str, stdin: str | None = None, **environ: str) -> Result:
        """Run the command on this database."""
        environ |= {"WINDLASS_DATABASE_URL": self.url, "WINDLASS_SCHEMA": self.schema}
        return windlass(*arguments, stdin=stdin, **environ)

    def ok(self, *arguments: str, stdin: str | None = None) -> str:
        """Run the command, which must succeed, and return what it printed."""
        result = self.run(*arguments, stdin=stdin)
        assert result.exit_code == 0, result.output
        return str(result.stdout)

    def json(self, *arguments: str) -> Any:
        """Run the command with --json and read its answer."""
        return json.loads(self.ok(*arguments, "--json"))

    def refused(self, *arguments: str, code: int = 1) -> str:
        """Run the command, which must fail with this exit code, and return what it said."""
        result = self.run(*arguments)
        assert result.exit_code == code, result.output
        assert result.exception is None or isinstance(result.exception, SystemExit)
        return str(result.stderr)

    def visit(self, work: Callable[[Rig], Awaitable[T]]) -> T:
        """Do something with the open store."""

        async def visited() -> T:
            store = make_store(self.url, schema=self.schema)
            await store.open()
            try:
                return await work(Rig(store, RealTime(), "visited"))
            finally:
                await store.close()

        return asyncio.run(visited())

    @contextmanager
    def working(self, *queues: str, **outcome: Any) -> Iterator[None]:
        """A worker besides the command that ends every job it finds in this way."""
        done = threading.Event()

        async def work(rig: Rig) -> None:
            worker = await rig.worker()
            while not done.is_set():
                await rig.finish(worker, await rig.claim(worker, *queues), **outcome)
                await rig.store.wait(queues, 0.02)

        thread = threading.Thread(target=lambda: self.visit(work))
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()
