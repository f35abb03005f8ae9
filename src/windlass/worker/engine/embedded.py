"""A worker inside a process that also does other things: a test, a notebook, an ASGI app's lifespan.

    async with app.worker(queues={"mail": 8}):      # works while the block lasts
        ...

Handlers run on the loop that enters the block, heartbeats and the cluster's chores on the loop thread of the
process: a handler that blocks its loop does not lose its lease. There is no supervisor here: a plain
function that ignores its timeout cannot be killed and is left behind in its thread.

The end of the block, also by Ctrl-C, waits for what runs, at most as long as the setting `shutdown`. A second
Ctrl-C, or a cancel of the task that waits, hands it back at once, uncharged [K2].
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Self

from windlass.chunks.task import warn_of_long_batches
from windlass.cluster.member import Member
from windlass.cluster.queues import seed
from windlass.core.abilities import NONE
from windlass.core.counts import plural
from windlass.core.slots import MAX_SLOTS
from windlass.errors import ConfigurationError, WindlassError
from windlass.running import loopthread
from windlass.running.process_group import to_the_end
from windlass.running.store_handle import patiently
from windlass.store.protocol import Store
from windlass.store.records import WakeUp, WorkerInfo
from windlass.worker.engine.assignment import Assignment
from windlass.worker.engine.declare import declare
from windlass.worker.engine.engine import LEAVE_TIME, Engine
from windlass.worker.engine.label import make_label, worker_info
from windlass.worker.engine.reconcile import reconcile_for_ever
from windlass.worker.engine.unresponsive import EmbeddedWatch, loop_turns, silence_limit
from windlass.worker.engine.waiting import log_polling, wait_for_store
from windlass.worker.handlers.processes import Processes
from windlass.worker.handlers.runner import Runner
from windlass.worker.reports.recorder import recorder_for
from windlass.worker.reports.stacks import task_stacks, thread_stacks
from windlass.worker.reports.status_memory import StatusMemory

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")


class Worker:
    """One worker in this process; `app.worker(...)` makes it. Use it once."""

    def __init__(
        self,
        app: Windlass,
        queues: dict[str, int | None],
        given: str = "",
        abilities: frozenset[str] = NONE,
    ) -> None:
        if not queues:
            raise ConfigurationError(
                "this worker serves no queue: app.worker(queues=['mail']), or declare a task first"
            )
        self._app = app
        self._queues = queues
        self._abilities = abilities
        self._label = make_label(app.settings.label_prefix, app.settings.label_version, given)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._engine: Engine | None = None
        self._store: Store | None = None
        self._member: Member | None = None
        self._status_memory = StatusMemory.private(MAX_SLOTS * len(queues))
        self._watch: EmbeddedWatch | None = None
        self._identity: int | None = None
        """The worker id in the store, the last one if there were several."""
        self._started = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._thread: threading.Thread | None = None
        self._thread_error: list[BaseException] = []
        self._gone = threading.Event()
        """That thread is through. Python 3.11 takes a thread for dead whose join was interrupted."""
        self._stops = 0
        """How often it was told to stop, also before there was anything to stop."""

    async def run(self) -> None:
        """Work until `stop` is called, or this is cancelled, which hands running jobs back at once."""
        app, store_handle = self._app, self._app._store_handle()
        self._loop = asyncio.get_running_loop()
        logger.info("worker %s; event loop: %s", self._label, loopthread.loop_name(self._loop))
        chores = loopthread.current().loop
        leaving = asyncio.Event()
        async with store_handle.here(wait_for_store) as store:
            await patiently(lambda: seed(store, self._queues), wait_for_store)
            await patiently(lambda: declare(app, store), wait_for_store)
            warn_of_long_batches(app.tasks.values(), app.settings.lease)
            await app.hooks.start()
            self._engine = engine = Engine(
                store,
                lambda engine: Runner(app.tasks, engine, hooks=app.hooks, processes=Processes()),
                self._worker_info,
                self,
                settings=app.settings,
                memory=self._status_memory,
                record=recorder_for(app.settings),
            )
            self._store = store
            store.on_wakeup(WakeUp(receives=False))  # the member listens
            self._heed()
            ready: concurrent.futures.Future[Member] = concurrent.futures.Future()
            membership = asyncio.run_coroutine_threadsafe(self._run_member(ready, leaving), chores)
            membership.add_done_callback(lambda done: _fail(ready, done))
            store_handle.listeners.add(self.cancel)
            store_handle.worker_loops.append(self._loop)
            try:
                self._member = await asyncio.wrap_future(ready)
                both = (reconcile_for_ever(app, store, self._queues), log_polling(store, self._queues))
                beside = [asyncio.create_task(each) for each in both]
                try:
                    await self._work(engine, store)
                finally:
                    for task in beside:
                        task.cancel()
            finally:
                self._store = None
                store.on_wakeup(None)
                store_handle.listeners.discard(self.cancel)
                store_handle.worker_loops.remove(self._loop)
                chores.call_soon_threadsafe(leaving.set)
                try:
                    await asyncio.wrap_future(membership)
                finally:
                    await app.hooks.stop()

    def stop(self) -> None:
        """Stop claiming and let running jobs finish; a second call hands them back. From any thread."""
        if self._loop is None:
            self._stops += 1
        else:
            self._call(self._stop)

    def readiness(self) -> tuple[bool, dict[str, object]]:
        """Return whether it can run jobs right now, and what that hangs on: the store answers and takes what
        is written, and it does not take nothing though it could. For a health check of your own; from any
        thread."""
        member = self._member
        reachable = member is not None and member.reachable
        writes = "failing" if member is None else "full" if self._status_memory.is_full else member.writes
        unresponsive = self._watch is not None and self._watch.unresponsive
        works = self._works()
        return reachable and writes == "done" and works and not unresponsive, {
            "store": "reached" if reachable else "out of reach",
            "writes": writes,
            "unresponsive": unresponsive,
            "working": works,
        }

    # -- as a block -------------------------------------------------------------------------------------

    async def __aenter__(self) -> Self:
        self._task = asyncio.create_task(self.run(), name=f"windlass {self._label}")
        started = asyncio.create_task(self._started.wait())
        try:
            await asyncio.wait({self._task, started}, return_when=asyncio.FIRST_COMPLETED)
        except asyncio.CancelledError:
            # Nobody will ever leave a block that was not entered.
            self._task.cancel()
            await to_the_end(_ended(self._task))
            raise
        finally:
            started.cancel()
            await asyncio.gather(started, return_exceptions=True)
        if self._task.done():
            self._task.result()
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._task is not None
        self._leave()
        await self._task

    def __enter__(self) -> Self:
        """Start it for code without a loop: the worker lives in a thread until the block ends."""
        up = threading.Event()

        async def run() -> None:
            self._loop = asyncio.get_running_loop()
            async with self:
                up.set()
                assert self._task is not None
                await asyncio.wait({self._task})

        def work() -> None:
            try:
                loopthread.run_here(run())
            except BaseException as error:  # noqa: BLE001 - raised again where the block is
                self._thread_error.append(error)
            finally:
                up.set()
                self._gone.set()

        self._thread = threading.Thread(target=work, name="windlass-worker", daemon=True)
        self._thread.start()
        try:
            up.wait()
        except BaseException:  # Ctrl-C
            self._stops = 2  # for the case that it has no loop yet to hear the rest
            self._call(self._give_up)
            self._gone.wait()
            raise
        self._raise()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._thread is not None
        self._call(self._leave)
        try:
            self._gone.wait()
        except BaseException:  # the second Ctrl-C
            self._call(self._stop_now)
            self._gone.wait()
            raise
        self._thread.join()
        self._raise()

    def _raise(self) -> None:
        if self._thread_error:
            raise self._thread_error[0]

    # -- how --------------------------------------------------------------------------------------------

    def _worker_info(self, worker: int) -> WorkerInfo:
        app = self._app
        return worker_info(
            worker,
            self._label,
            self._queues,
            app.settings.lease,
            app.tasks.values(),
            self._abilities,
        )

    async def _work(self, engine: Engine, store: Store) -> None:
        working = asyncio.create_task(engine.run())
        try:
            await asyncio.shield(working)
        except asyncio.CancelledError:
            engine.stop_now()
            try:
                await to_the_end(_ended(working))
            finally:
                # A Ctrl-C may be raised in the engine's own task, too.
                if working.done() and (working.cancelled() or working.exception() is not None):
                    await to_the_end(self._hand_back(store))
            raise

    async def _hand_back(self, store: Store) -> None:
        """The second Ctrl-C under `asyncio.run` cancels every task of the loop, also the engine in the middle
        of its leave. What it held must not wait for the lease."""
        if self._identity is None:
            return
        try:
            async with asyncio.timeout(LEAVE_TIME):
                jobs = await store.retire(self._identity)
        except (TimeoutError, WindlassError) as error:
            logger.warning("running jobs could not be handed back; they wait to be rescued: %s", error)
        else:
            logger.info("%s handed back, uncharged", plural(jobs, "running job is", "running jobs are"))

    def _stop(self) -> None:
        self._stops += 1
        self._heed()

    def _heed(self) -> None:
        if self._engine is not None and self._stops:
            (self._leave if self._stops == 1 else self._stop_now)()

    def _leave(self) -> None:
        """The end of the block. Where it was told to stop before, this is no second stop: what runs may
        finish."""
        if self._engine is None or self._engine.stopping:
            return
        if self._engine.busy:
            logger.info(
                "waiting up to %g s for %s; a second Ctrl-C or stop() hands them back",
                self._app.settings.shutdown,
                plural(self._engine.busy, "running job"),
            )
        self._engine.shutdown()

    def _stop_now(self) -> None:
        if self._engine is not None:
            self._engine.stop_now()

    def _give_up(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _call(self, word: Callable[[], None]) -> None:
        """Call something on the worker's loop, from any thread, unless that loop has ended."""
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):
                self._loop.call_soon_threadsafe(word)

    async def _run_member(self, ready: concurrent.futures.Future[Member], leaving: asyncio.Event) -> None:
        """The life of the member, on the loop thread."""
        async with self._app._store_handle().shared() as store:
            member = Member(store, self._app.settings, self._queues)
            self._watch = EmbeddedWatch(self._status_memory, member, silence_limit(self._app.settings))
            watching = self._watch.run(self._works, self._warn_unresponsive)
            chores = [asyncio.create_task(chore) for chore in (member.run(), watching)]
            try:
                # Whoever waited may have been cancelled, and then tells us to leave.
                with contextlib.suppress(concurrent.futures.InvalidStateError):
                    ready.set_result(member)
                await leaving.wait()
            finally:
                for chore in chores:
                    chore.cancel()
                await asyncio.gather(*chores, return_exceptions=True)

    def _works(self) -> bool:
        """Return whether it has begun, and was not told to stop."""
        return self._started.is_set() and self._engine is not None and not self._engine.stopping

    def _warn_unresponsive(self, why: str) -> None:
        """Log why it takes no jobs: no supervisor is there to replace it."""
        logger.error(
            "worker %s takes no jobs: %s. Restart this process. Its threads:\n%s",
            self._label,
            why,
            thread_stacks(),
        )
        if loop_turns(self._status_memory):
            self._call(lambda: logger.error("the tasks of its loop:\n%s", task_stacks()))

    # -- what the engine asks: see windlass.worker.engine.Host -------------------------------------------

    def began(self, worker: int) -> None:
        """Let the member send heartbeats for this identity."""
        assert self._member is not None
        self._identity = worker
        self._started.set()
        loopthread.current().loop.call_soon_threadsafe(self._member.join, worker, self)

    def ended(self, worker: int) -> None:
        """Let the member stop that."""
        assert self._member is not None
        loopthread.current().loop.call_soon_threadsafe(self._member.leave, worker)

    # -- what the member asks: see windlass.cluster.member.Local ------------------------------------------

    def assign(self, assignment: Assignment) -> None:
        """New slots and settings of queues."""
        self._on_engine(lambda engine: engine.assign(assignment))

    def wake(self, wake_up: WakeUp) -> None:
        """Take a wake-up that the member received."""
        self._call(lambda: self._on_wakeup(wake_up))

    def _on_wakeup(self, wake_up: WakeUp) -> None:
        if self._store is not None:
            self._store.on_wakeup(wake_up)

    def cancel(self, jobs: frozenset[int]) -> None:
        """These jobs should be cancelled."""
        self._on_engine(lambda engine: engine.cancel(jobs))

    def lose(self, worker: int) -> None:
        """This identity is dead, or must be taken for dead."""
        self._on_engine(lambda engine: engine.lose(worker))

    def can_run(self) -> bool:
        """This process runs, since it asks."""
        return True

    def _on_engine(self, word: Callable[[Engine], None]) -> None:
        engine = self._engine
        if engine is not None:
            self._call(lambda: word(engine))


def _fail(ready: concurrent.futures.Future[Member], done: concurrent.futures.Future[Any]) -> None:
    """Pass on why the member ended before it began."""
    if not done.cancelled() and (error := done.exception()) is not None:
        with contextlib.suppress(concurrent.futures.InvalidStateError):  # nobody waits any more
            ready.set_exception(error)


async def _ended(task: asyncio.Task[None]) -> None:
    await asyncio.wait({task})
