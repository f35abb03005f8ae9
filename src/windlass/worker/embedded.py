"""A worker inside a process that also does other things: a test, a notebook, an ASGI app's lifespan.

    async with app.worker(queues={"mail": 8}):      # works while the block lasts
        ...

Handlers run on the loop that enters the block, heartbeats and the cluster's chores on the loop thread of the
process: a handler that blocks its loop does not lose its lease. There is no supervisor here: a plain
function that ignores its timeout cannot be killed and is left behind in its thread.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import os
import socket
import threading
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from windlass import loopthread
from windlass.cluster.member import Member
from windlass.cluster.queues import seed
from windlass.errors import ConfigurationError
from windlass.home import patiently
from windlass.store.records import WorkerInfo
from windlass.worker.engine import Engine, wait_for_store
from windlass.worker.label import make_label
from windlass.worker.runner import Runner
from windlass.worker.view import View

if TYPE_CHECKING:
    from windlass.app import Windlass


class Worker:
    """One worker in this process; `app.worker(...)` makes it. Use it once."""

    def __init__(self, app: Windlass, queues: dict[str, int | None]) -> None:
        if not queues:
            raise ConfigurationError(
                "this worker serves no queue: app.worker(queues=['mail']), or declare a task first"
            )
        self._app = app
        self._queues = queues
        self._label = make_label(app.settings.label_prefix, app.settings.label_version)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._member: Member | None = None
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._thread_error: list[BaseException] = []
        self._stops = 0
        """How often it was told to stop, also before there was anything to stop."""

    async def run(self) -> None:
        """Work until `stop` is called, or this is cancelled, which hands running jobs back at once."""
        app, home = self._app, self._app._home()
        self._loop = asyncio.get_running_loop()
        chores = loopthread.current().loop
        leaving = asyncio.Event()
        async with home.here(wait_for_store) as store:
            await patiently(lambda: seed(store, self._queues), wait_for_store)
            await app.hooks.start()
            self._engine = engine = Engine(
                store,
                lambda engine: Runner(app.tasks, engine, hooks=app.hooks),
                self._introduce,
                self,
                shutdown=app.settings.shutdown,
            )
            self._heed()
            ready: concurrent.futures.Future[Member] = concurrent.futures.Future()
            belonging = asyncio.run_coroutine_threadsafe(self._belong(ready, leaving), chores)
            belonging.add_done_callback(lambda done: _fail(ready, done))
            home.listeners.add(self._hear_of_cancels)
            try:
                self._member = await asyncio.wrap_future(ready)
                self._started.set()
                await self._work(engine)
            finally:
                home.listeners.discard(self._hear_of_cancels)
                chores.call_soon_threadsafe(leaving.set)
                try:
                    await asyncio.wrap_future(belonging)
                finally:
                    await app.hooks.stop()

    def stop(self) -> None:
        """Stop claiming and let running jobs finish; a second call hands them back. From any thread."""
        if self._loop is None:
            self._stops += 1
        else:
            self._call(self._stop)

    # -- as a block -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"windlass {self._label}")
        started = asyncio.create_task(self._started.wait())
        await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        started.cancel()
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._task is not None
        self._leave()
        await self._task

    def __enter__(self) -> Self:
        """The same for code without a loop: the worker lives in a thread until the block ends."""
        up = threading.Event()

        async def run() -> None:
            async with self:
                up.set()
                assert self._task is not None
                await asyncio.wait({self._task})

        def work() -> None:
            try:
                asyncio.run(run())
            except BaseException as error:  # noqa: BLE001 - raised again where the block is
                self._thread_error.append(error)
            finally:
                up.set()

        self._thread = threading.Thread(target=work, name="windlass-worker", daemon=True)
        self._thread.start()
        up.wait()
        self._raise()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self._thread is not None
        self._call(self._leave)
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._thread_error:
            raise self._thread_error[0]

    # -- how --------------------------------------------------------------------------------------------

    def _introduce(self, worker: int) -> WorkerInfo:
        return WorkerInfo(
            id=worker,
            label=self._label,
            host=socket.gethostname(),
            pid=os.getpid(),
            queues=tuple(self._queues),
            lease=self._app.settings.lease,
        )

    async def _work(self, engine: Engine) -> None:
        working = asyncio.create_task(engine.run())
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            engine.release()
            await working
            raise

    def _stop(self) -> None:
        self._stops += 1
        self._heed()

    def _heed(self) -> None:
        if self._engine is not None and self._stops:
            (self._engine.drain if self._stops == 1 else self._engine.release)()

    def _leave(self) -> None:
        """The end of the block. Where it was told to stop before, this is no second word: what runs may
        finish."""
        if self._engine is not None:
            self._engine.drain()

    def _call(self, word: Callable[[], None]) -> None:
        """Say something on the worker's loop, from any thread; where that has ended, nobody is left to
        hear."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(word)

    async def _belong(self, ready: concurrent.futures.Future[Member], leaving: asyncio.Event) -> None:
        """The life of the member, on the loop thread."""
        store = await self._app._home().shared()
        member = Member(store, self._app.settings, self._queues)
        running = asyncio.create_task(member.run())
        ready.set_result(member)
        try:
            await leaving.wait()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def _hear_of_cancels(self, jobs: frozenset[int]) -> None:
        self.cancel(jobs)

    # -- what the engine asks: see windlass.worker.engine.Host -------------------------------------------

    def began(self, worker: int) -> None:
        """Let the member beat for this identity."""
        assert self._member is not None
        loopthread.current().loop.call_soon_threadsafe(self._member.join, worker, self)

    def ended(self, worker: int) -> None:
        """Let the member stop that."""
        assert self._member is not None
        loopthread.current().loop.call_soon_threadsafe(self._member.leave, worker)

    # -- what the member asks: see windlass.cluster.member.Local ------------------------------------------

    def steer(self, view: View) -> None:
        """New slots and settings of queues."""
        self._tell(lambda engine: engine.steer(view))

    def cancel(self, jobs: frozenset[int]) -> None:
        """These jobs should be cancelled."""
        self._tell(lambda engine: engine.cancel(jobs))

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead."""
        self._tell(lambda engine: engine.lose(worker))

    def breathes(self) -> bool:
        """This process runs, since it asks."""
        return True

    def _tell(self, word: Callable[[Engine], None]) -> None:
        engine = self._engine
        if engine is not None:
            self._call(lambda: word(engine))


def _fail(ready: concurrent.futures.Future[Member], done: concurrent.futures.Future[Any]) -> None:
    """The member ended before it began: whoever waits for it should know why."""
    if not ready.done() and not done.cancelled() and (error := done.exception()) is not None:
        ready.set_exception(error)
