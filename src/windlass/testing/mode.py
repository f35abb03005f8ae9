"""What `app.testing()` returns: a `with` block during which an app keeps its jobs in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, TypeVar

from windlass import loopthread
from windlass.core.durations import Duration
from windlass.errors import ConfigurationError
from windlass.home import StoreHome
from windlass.port import finish_here
from windlass.producer import Producer
from windlass.store.memory import MemoryStore
from windlass.store.records import ClaimedJob, NewJob, Outcome, Receipt
from windlass.testing.clock import Clock
from windlass.testing.draining import Draining, Ran
from windlass.worker.declare import declare_budgets
from windlass.worker.drain import drain

if TYPE_CHECKING:
    from windlass.app import Windlass

T = TypeVar("T")


class TestMode:
    """The kit of one test: `store` holds the jobs, `clock` says what time it is, `drain` runs what is due.

    A `connection=` is taken and ignored here: memory has no transactions, and the code under test should not
    have to know that it is being tested.
    """

    __test__ = False  # pytest collects classes called Test…

    def __init__(self, app: Windlass, *, inline: bool = False, clock: Clock | None = None) -> None:
        self._app = app
        self.clock: Clock = clock or Clock()
        """The time, moved by hand."""
        self.store: MemoryStore = MemoryStore(app.settings.for_store(), clock=self.clock)
        """Where the jobs are."""
        home = StoreHome(lambda: self.store, roams=True)
        self.producer: Producer = _Inline(app, home) if inline else _Memory(app, home)

    def __enter__(self) -> Self:
        if self._app._test_mode is not None:
            raise ConfigurationError("this app is in a testing block already; leave it before the next one")
        # A schedule counts from now on, as with a worker that starts. In memory, this waits for nothing.
        finish_here(self._app.schedules.aseed(self.store))
        self._app._test_mode = self
        return self

    def drain(
        self, *, advance: Duration | bool = False, raises: bool = True, queues: Sequence[str] | None = None
    ) -> Ran:
        """Run every job that is due, and those that they enqueue, and tell how they ended.

        `advance` moves the clock: True to each job that waits, retries included, until none does; "1h" by so
        much, with all that falls due on the way, schedules included. Then, what a job has raised that is dead
        or retrying is raised; with raises=False it stands in the answer's `errors`. `queues` None means every
        queue."""
        return loopthread.run_here(self.adrain(advance=advance, raises=raises, queues=queues))

    async def adrain(
        self, *, advance: Duration | bool = False, raises: bool = True, queues: Sequence[str] | None = None
    ) -> Ran:
        """Run every job that is due; see `drain`."""
        async with self.producer.home.here() as store:
            ran = await Draining(self._app, store, self.clock, queues).run(advance)
        if raises and ran.errors:
            first, *others = ran.errors
            if others:
                told = "; ".join(f"{type(each).__name__}: {each}" for each in others[:5])
                first.add_note(f"Of {len(ran.errors)} jobs that failed in this drain it is the first: {told}")
            raise first
        return ran

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._app._test_mode = None

    async def __aenter__(self) -> Self:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


class _Memory(Producer):
    """Sends jobs to the store in memory, whatever connection they come with."""

    def __init__(self, app: Windlass, home: StoreHome) -> None:
        super().__init__(home, None, "", app.hooks)

    def send(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        return super().send(jobs)

    async def asend(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        return await super().asend(jobs)


class _Inline(_Memory):
    """Runs what is ready as soon as it has been sent, and raises what the handlers raise."""

    def __init__(self, app: Windlass, home: StoreHome) -> None:
        super().__init__(app, home)
        self._app = app

    def send(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        receipts = super().send(jobs)
        _run_anywhere(self._run())
        return receipts

    async def asend(self, jobs: Sequence[NewJob], connection: Any = None) -> list[Receipt]:
        receipts = await super().asend(jobs)
        await self._run()
        return receipts

    async def _run(self) -> None:
        raised: list[BaseException] = []

        def observe(job: ClaimedJob, outcome: Outcome, error: BaseException | None) -> None:
            if outcome.error is not None and error is not None:
                raised.append(error)

        async with self.home.here() as store:
            await declare_budgets(self._app, store)
            await drain(
                store,
                self._app.tasks,
                observe=observe,
                hooks=self._app.hooks,
                settings=self._app.settings,
            )
        if raised:
            raise raised[0]


def _run_anywhere(coroutine: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine to its end: here, or in another thread where this one runs a loop already."""
    if not loopthread.in_loop():
        return asyncio.run(coroutine)
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
