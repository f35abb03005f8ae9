"""A child: forked by a fork server that has loaded the app, or started anew by the supervisor as a program,
`python -m windlass.worker.processes.child SOCKET STATUS_MEMORY`.

It loads the app where that is still to be done, runs the start hooks, and works until it is told to leave or
its supervisor is gone. The supervisor sends its heartbeats.
"""

from __future__ import annotations

import asyncio
import contextlib
import faulthandler
import gc
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from windlass.chunks.task import warn_of_long_batches
from windlass.core.counts import plural
from windlass.errors import ConfigurationError, StoreForbidden, StoreMoved, WindlassError
from windlass.running.loopthread import prefer_uvloop
from windlass.running.store_handle import patiently
from windlass.store.protocol import Store
from windlass.store.records import WakeUp
from windlass.tasks.loading import load_app
from windlass.worker.engine.declare import declare
from windlass.worker.engine.engine import Engine
from windlass.worker.engine.label import worker_info
from windlass.worker.engine.reconcile import reconcile_for_ever
from windlass.worker.engine.waiting import wait_for_store
from windlass.worker.handlers.processes import Processes
from windlass.worker.handlers.runner import Runner
from windlass.worker.processes import channel as protocol
from windlass.worker.processes.channel import Channel, Message
from windlass.worker.reports.logs import set_up_logs
from windlass.worker.reports.memory import used_memory
from windlass.worker.reports.recorder import recorder_for
from windlass.worker.reports.stacks import task_stacks
from windlass.worker.reports.status_memory import StatusMemory

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")
CHECK_EVERY: Final = 1.0
NAME: Final = "windlass-worker"
GARBAGE: Final = (20_000, 20, 50)
"""The thresholds of the garbage collector in a worker's process."""

ORPHAN_TIME: Final = 5.0
"""Seconds beyond a grace that a child without a supervisor has to hand its jobs back and leave."""


class Child:
    """One worker process."""

    def __init__(
        self, channel: Channel, memory: StatusMemory, parent: int, app: Windlass | None = None
    ) -> None:
        self._parent = parent
        self._app = app
        self._channel = channel
        self._status_memory = memory
        self._engine: Engine | None = None
        self._leaving = False
        self._ready = False

    async def run(self) -> int:
        """Everything, from the first message to the exit code."""
        messages = self._channel.messages()
        start = await anext(messages, None)
        if not isinstance(start, protocol.Start):
            return 1
        try:
            app = self._app
            if app is None:
                app = load_app(start.app)
                app.discover(*app.settings.imports)
        except WindlassError as error:
            return await self._fail(str(error))
        try:
            return await self._work(start, app, messages)
        except (ConfigurationError, StoreForbidden, StoreMoved) as error:
            # The store will not have us: a newer schema, another host's file, a role that may only read, a
            # file whose jobs were copied elsewhere.
            return await self._fail(str(error))

    async def _fail(self, reason: str) -> int:
        """Tell the supervisor why this cannot work."""
        self._channel.send(protocol.Failed(reason))
        await self._channel.close()
        return 1

    async def _work(self, start: protocol.Start, app: Windlass, messages: AsyncIterator[Message]) -> int:
        """From the open store to the exit code."""
        _leave_with_parent(self._parent, asyncio.get_running_loop(), app.settings.grace)
        async with app._store_handle().here(wait_for_store) as store:
            store.on_wakeup(WakeUp(receives=False))  # the supervisor listens
            try:
                await app.hooks.start()
            except Exception as error:
                logger.exception("a start hook failed")
                return await self._fail(f"a start hook failed: {type(error).__name__}: {error}")
            processes = Processes(spec=start.app)
            self._engine = engine = Engine(
                store,
                lambda engine: Runner(app.tasks, engine, hooks=app.hooks, processes=processes),
                lambda worker: worker_info(
                    worker,
                    start.label,
                    start.queues,
                    app.settings.lease,
                    app.tasks.values(),
                    app.settings.abilities,
                ),
                self,
                settings=app.settings,
                record=recorder_for(app.settings),
                memory=self._status_memory,
                supervised=True,
            )
            warn_of_long_batches(app.tasks.values(), app.settings.lease)
            await patiently(lambda: declare(app, store), wait_for_store)
            self._heed_signals()
            listening = asyncio.create_task(self._listen(store, messages))
            checking = asyncio.create_task(self._check(app))
            reconciling = asyncio.create_task(reconcile_for_ever(app, store, start.queues))
            try:
                await engine.run()
            finally:
                for task in (listening, checking, reconciling):
                    task.cancel()
                await app.hooks.stop()
        await self._channel.close()
        if engine.left_behind:
            os._exit(0)  # a thread that cannot be stopped must not keep this process, nor its effects, alive
        return 0

    # -- what the engine asks: see windlass.worker.engine.Host --------------------------------------------

    def began(self, worker: int) -> None:
        """Tell the supervisor to send heartbeats for this identity; with the first, that this process is
        up."""
        if not self._ready:
            self._ready = True
            self._channel.send(protocol.Ready())
        self._channel.send(protocol.Began(worker))

    def ended(self, worker: int) -> None:
        """Tell the supervisor to send no more."""
        self._channel.send(protocol.Ended(worker))

    # -- what comes from outside --------------------------------------------------------------------------

    def _heed_signals(self) -> None:
        """SIGTERM sent to a child alone shuts it down and has it replaced. Ctrl-C reaches the whole group, so
        it is the supervisor's."""
        assert self._engine is not None
        loop = asyncio.get_running_loop()
        loop.add_signal_handler(signal.SIGTERM, lambda: self._recycle("it received SIGTERM"))
        loop.add_signal_handler(signal.SIGINT, lambda: None)

    def _recycle(self, reason: str, memory: int = 0) -> None:
        """Leave in good order, and ask to be replaced."""
        assert self._engine is not None
        if not self._leaving:
            self._leaving = True
            self._channel.send(protocol.Recycle(reason, memory))
        self._engine.shutdown()

    async def _listen(self, store: Store, messages: AsyncIterator[Message]) -> None:
        engine = self._engine
        assert engine is not None
        async for message in messages:
            match message:
                case protocol.Assign():
                    engine.assign(message.assignment)
                case protocol.Wake():
                    store.on_wakeup(message.wake_up)
                case protocol.Cancel():
                    engine.cancel(frozenset(message.jobs))
                case protocol.Lose():
                    engine.lose(message.worker)
                case protocol.Shutdown():
                    if message.stacks:
                        logger.error("the tasks of this process:\n%s", task_stacks())
                    self._leaving = True
                    engine.shutdown()
                case protocol.StopNow():
                    engine.stop_now()
        # Nobody sends our heartbeats any more: hand jobs back, so that others need not wait for the lease.
        logger.warning("the supervisor is gone; this worker hands its jobs back and exits")
        engine.stop_now()

    async def _check(self, app: Windlass) -> None:
        """Ask to be replaced after `max_jobs` jobs, above `max_memory`, or with a thread that cannot be
        stopped."""
        engine, settings = self._engine, app.settings
        assert engine is not None
        while True:
            await asyncio.sleep(CHECK_EVERY)
            memory = 0
            if settings.max_jobs and engine.done >= settings.max_jobs:
                reason = f"it has run {plural(engine.done, 'job')}"
            elif settings.max_memory and (used := used_memory()) > settings.max_memory:
                reason, memory = f"it uses {used // 2**20} MiB", used
            elif engine.left_behind:
                reason = "a plain function did not end with its job"
            else:
                continue
            self._recycle(reason, memory)
            return


def _leave_with_parent(parent: int, loop: asyncio.AbstractEventLoop, grace: float) -> None:
    """A blocked loop does not hear that the supervisor is gone, and a handler may not heed that it should
    stop; nobody is left to kill them, and their jobs would go on here while another worker has them. So a
    thread looks, too, and ends the process when its time is over."""

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(CHECK_EVERY)
        answered = threading.Event()
        with contextlib.suppress(RuntimeError):  # the loop has ended
            loop.call_soon_threadsafe(answered.set)
            if not answered.wait(grace):
                _end("the supervisor is gone and the loop is blocked; exiting. The stacks:")
        time.sleep(grace + ORPHAN_TIME)
        _end("the supervisor is gone and a handler does not end; exiting. The stacks:")

    threading.Thread(target=watch, name="windlass-parent", daemon=True).start()


def _end(why: str) -> None:
    logger.error(why)
    faulthandler.dump_traceback()
    os._exit(1)


async def _main(end: socket.socket, memory: StatusMemory, parent: int, app: Windlass | None) -> int:
    return await Child(await Channel.over(end), memory, parent, app).run()


def set_up(name: str) -> None:
    """Prepare the process before the app is imported: signals, logs, where modules are found, and the name
    that `ps` and `top` show."""
    _call_this_process(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    faulthandler.register(signal.SIGUSR2, all_threads=True)  # works while the interpreter is stuck
    set_up_logs(os.environ.get("WINDLASS_LOG_FORMAT", "text"), os.environ.get("WINDLASS_LOG_LEVEL", "info"))
    # A handler that parses makes thousands of short-lived dicts and lists: looking for cycles among each few
    # hundred of them, as Python does by default, takes a tenth to a fifth of its time.
    gc.set_threshold(*GARBAGE)
    with contextlib.suppress(ValueError):
        sys.path.remove("")
    sys.path.insert(0, os.getcwd())


def run_child(end: socket.socket, memory: StatusMemory, parent: int, app: Windlass | None = None) -> NoReturn:
    """Be a child, with the app where it is imported already, and exit."""
    _call_this_process(NAME)
    with asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        code = runner.run(_main(end, memory, parent, app))
    sys.exit(code)


def _call_this_process(name: str) -> None:
    with contextlib.suppress(OSError):
        Path("/proc/self/comm").write_text(name, "ascii")


def main() -> None:
    """Start from the descriptors that the supervisor named."""
    parent = os.getppid()
    set_up(NAME)
    run_child(socket.socket(fileno=int(sys.argv[1])), StatusMemory(int(sys.argv[2])), parent)


if __name__ == "__main__":
    main()
