"""The block of `app.testing()`: a `with` block during which an app keeps its jobs in memory, or in a database
of the test's own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Collection, Coroutine, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, TypeVar

from windlass.core.durations import Duration
from windlass.errors import ConfigurationError
from windlass.running import loopthread
from windlass.running.port import finish_here
from windlass.running.producer import Producer
from windlass.running.sending import NewSignal
from windlass.running.store_handle import StoreHandle
from windlass.store.protocol import Store
from windlass.store.records import ClaimedJob, NewJob, Outcome, Receipt
from windlass.store.sqlite import SQLiteStore
from windlass.testing.clock import Clock
from windlass.testing.draining import Draining, Ran, every_ability
from windlass.worker.engine.declare import declare_budgets
from windlass.worker.engine.run_until_idle import run_until_idle
from windlass.worker.handlers.runner import HandlerThreads

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")


class CallerThread(HandlerThreads, Protocol):
    """Where the jobs of a test run, for frameworks whose plain functions belong to one thread."""

    def drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine to its end, with `run` calling functions in this thread meanwhile."""


class TestMode:
    """The kit of one test: `clock` says what time it is, `drain` runs what is due.

    In memory, a `connection=` is taken and ignored: there are no transactions, and the code under test should
    not have to know that it is being tested. With a `database`, the URL of one that is the test's own, jobs
    are in it, transactions are real (`ctx.transaction()`), and the time is its own: it cannot be moved.
    """

    __test__ = False  # pytest collects classes called Test…

    def __init__(
        self, app: Windlass, *, inline: bool = False, clock: Clock | None = None, database: str | None = None
    ) -> None:
        if database is not None and (inline or clock is not None):
            raise ConfigurationError(
                "a test on a real database has that one's clock and runs jobs by drain()"
            )
        self._app = app
        self._memory: SQLiteStore | None = None
        self._clock = clock or Clock()
        self.producer: Producer
        if database is not None:
            self.producer = app._producer_at(database)
        else:
            # Tokens that are booked come with real time, and this clock may stand still.
            self._memory = memory = SQLiteStore(
                ":memory:", app.settings.for_store(), self._clock, books=False
            )
            store_handle = StoreHandle(lambda: memory, roams=True, clock=self._clock)
            self.producer = _Inline(app, store_handle) if inline else _Memory(app, store_handle)

    @property
    def clock(self) -> Clock:
        """The time, moved by hand."""
        if self._memory is None:
            raise ConfigurationError(
                "the clock of a real database cannot be moved: leave out database= for tests of time"
            )
        return self._clock

    @property
    def store(self) -> Store:
        """Where the jobs are, in memory."""
        if self._memory is None:
            raise ConfigurationError("the jobs of this test are in a real database: ask the app for them")
        return self._memory

    def __enter__(self) -> Self:
        self._refuse_nested()
        # A schedule counts from now on, as with a worker that starts.
        if self._memory is not None:
            finish_here(self._app.schedules.aseed(self._memory))
        else:
            loopthread.current().run(self.producer.store_handle.migrate())
            self.producer.store_handle.call(self._app.schedules.aseed)
        self._app._test_mode = self
        return self

    def _refuse_nested(self) -> None:
        if self._app._test_mode is not None:
            raise ConfigurationError("this app is in a testing block already; leave it before the next one")

    def drain(
        self, *, advance: Duration | bool = False, raises: bool = True, queues: Sequence[str] | None = None
    ) -> Ran:
        """Run every job that is due, and those that they enqueue, and tell how they ended.

        `advance` moves the clock: True to each job that waits, retries included, until none does; "1h" by so
        much, with all that falls due on the way, schedules included. Then, what a job has raised that is dead
        or retrying is raised; with raises=False it stands in the answer's `errors`. `queues` None means every
        queue."""
        return self._app._drive(self.adrain(advance=advance, raises=raises, queues=queues))

    async def adrain(
        self, *, advance: Duration | bool = False, raises: bool = True, queues: Sequence[str] | None = None
    ) -> Ran:
        """Run every job that is due; see `drain`."""
        async with self.producer.store_handle.here() as store:
            clock = None if self._memory is None and advance is False else self.clock
            ran = await Draining(self._app, store, clock, queues).run(advance)
        if raises and ran.errors:
            first, *others = ran.errors
            if others:
                message = "; ".join(f"{type(each).__name__}: {each}" for each in others[:5])
                first.add_note(
                    f"Of {len(ran.errors)} jobs that failed in this drain it is the first: {message}"
                )
            raise first
        return ran

    def __exit__(self, *_: object) -> None:
        self._app._test_mode = None
        if self._memory is None:
            self.producer.store_handle.close()

    async def __aenter__(self) -> Self:
        if self._memory is not None:
            return self.__enter__()
        self._refuse_nested()
        await loopthread.current().arun(self.producer.store_handle.migrate())
        await self.producer.store_handle.acall(self._app.schedules.aseed)
        self._app._test_mode = self
        return self

    async def __aexit__(self, *_: object) -> None:
        self._app._test_mode = None
        if self._memory is None:
            await self.producer.store_handle.aclose()


class _Memory(Producer):
    """Sends jobs to the store in memory, whatever connection they come with."""

    def __init__(self, app: Windlass, store_handle: StoreHandle) -> None:
        super().__init__(store_handle, None, "", app.hooks, app.tasks)

    def _published(self, task: str, connection: Any) -> str | None:
        return self.store_handle.call_here(lambda store: store.published_queue(task))

    async def _apublished(self, task: str, connection: Any) -> str | None:
        return self._published(task, connection)

    def _known(self) -> Collection[str]:
        return ()

    async def _aknown(self) -> Collection[str]:
        return ()

    def _send(self, jobs: Sequence[NewJob], connection: Any, group: int | None) -> list[Receipt]:
        if group is not None:
            return self.store_handle.call_here(lambda store: store.enqueue_in_group(group, jobs))
        return self.store_handle.call_here(lambda store: store.enqueue(jobs))

    async def _put(self, jobs: Sequence[NewJob], connection: Any, group: int | None) -> list[Receipt]:
        return self._send(jobs, connection, group)

    def signal(self, signal: NewSignal, connection: Any = None) -> str:
        return self.store_handle.call_here(signal.send)

    async def asignal(self, signal: NewSignal, connection: Any = None) -> str:
        return self.signal(signal)


class _Inline(_Memory):
    """Runs what is ready as soon as it has been sent, and raises what the handlers raise."""

    def __init__(self, app: Windlass, store_handle: StoreHandle) -> None:
        super().__init__(app, store_handle)
        self._app = app

    def send(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        receipts = super().send(jobs, group=group)
        self._run_now()
        return receipts

    async def asend(
        self, jobs: Sequence[NewJob], connection: Any = None, *, group: int | None = None
    ) -> list[Receipt]:
        receipts = await super().asend(jobs, group=group)
        await self._run()
        return receipts

    def signal(self, signal: NewSignal, connection: Any = None) -> str:
        answer = super().signal(signal)
        self._run_now()
        return answer

    async def asignal(self, signal: NewSignal, connection: Any = None) -> str:
        answer = super().signal(signal)
        await self._run()
        return answer

    def _run_now(self) -> None:
        if loopthread.in_loop():
            _run_beside(self._run())
        else:
            self._app._drive(self._run())

    async def _run(self) -> None:
        raised: list[BaseException] = []

        def observe(job: ClaimedJob, outcome: Outcome, error: BaseException | None) -> None:
            if outcome.error is not None and error is not None:
                raised.append(error)

        async with self.store_handle.here() as store:
            await declare_budgets(self._app, store)
            await run_until_idle(
                store,
                self._app.tasks,
                observe=observe,
                hooks=self._app.hooks,
                settings=self._app.settings,
                threads=self._app._caller_thread,
                abilities=every_ability(self._app),
            )
        if raised:
            raise raised[0]


def _run_beside(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end in another thread, where this one runs a loop already."""
    answer: list[T] = []
    raised: list[BaseException] = []

    def work() -> None:
        try:
            answer.append(asyncio.run(coroutine))
        except BaseException as error:  # noqa: BLE001 - raised again where the caller is
            raised.append(error)

    thread = threading.Thread(target=work, name="windlass-inline")
    thread.start()
    thread.join()
    if raised:
        raise raised[0]
    return answer[0]
