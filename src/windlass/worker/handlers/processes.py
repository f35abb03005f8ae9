"""Runs plain Python task functions in warm child processes: `mode="process"`.

For work that holds the GIL, leaks, crashes, or must be stopped on time: a child can be killed in the middle
of it, together with all it has started. What crosses over is text: the task's name and payload one way, its
result or error the other. The program of the child is `windlass.worker.handlers.python_child`.
"""

from __future__ import annotations

import inspect
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import msgspec

from windlass.endings import Cancelled, Dead, Ending, Retry, Snooze, SourceGone, Throttled
from windlass.errors import ConfigurationError, RemoteError
from windlass.tasks.task import RegisteredTask
from windlass.worker.handlers.pool import WarmPool
from windlass.worker.handlers.python_child import Answer, RemoteFailure, Request

PROGRAM: Final = ("-m", "windlass.worker.handlers.python_child")
ENDINGS: Final[dict[str, Callable[..., Ending]]] = {
    kind.__name__: kind for kind in (Retry, Snooze, Throttled, Dead, SourceGone, Cancelled)
}
SIZE: Final = 256
"""Children are made when they are needed, so it is the slots of a worker that bound their number. With fewer
children than slots, jobs would wait for one while their time runs."""


class Processes:
    """Up to `size` children for one loop; give it no fewer than jobs run at a time.

    `spec` is the address of the app, such as `shop.jobs:app`: then a child knows all its tasks; without it,
    those that the module of a task's function shows.
    """

    def __init__(self, size: int = SIZE, spec: str | None = None) -> None:
        self._spec = spec
        self._pool = WarmPool([sys.executable, *PROGRAM], size=size, echo=_show, stack_signal=signal.SIGUSR2)

    async def run(
        self, task: RegisteredTask[..., Any], payload: str, timeout: float | None = None
    ) -> str | None:
        """Run one attempt and return its result as JSON text, None for None.

        Raises what the function raised: its endings as they were, all else as RemoteError. Raises PoolError
        when the child died, TimeoutError when it took too long; then, and when this is cancelled, the child
        and all it has started are dead before the exception is raised, and a note says where the function
        stood.
        """
        request = self._request(task, payload)
        answer = msgspec.convert(await self._pool.call(request, timeout), Answer)
        if answer.error is not None:
            raise _raised(answer.error)
        return answer.result

    async def close(self) -> None:
        """End all children."""
        await self._pool.close()

    def _request(self, task: RegisteredTask[..., Any], payload: str) -> Request:
        module, script = _address(task)
        return Request(
            task=task.name,
            payload=payload,
            module=module,
            script=script,
            spec=self._spec,
            path=[str(entry) or str(Path.cwd()) for entry in sys.path],
        )


def _address(task: RegisteredTask[..., Any]) -> tuple[str, str | None]:
    """The module that another process finds the function in, and the file if that is this one's script."""
    function = inspect.unwrap(task.function)
    module = getattr(task.function, "__module__", None) or "__main__"
    if module != "__main__":
        return module, None
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:  # python -m shop.jobs
        name = str(spec.name)
        if name.rpartition(".")[2] != "__main__":
            return name, None
        raise ConfigurationError(
            f"task {task.name} cannot run in another process: loading __main__.py there would start the "
            "program again; move the task to a module of its own"
        )
    file = getattr(main, "__file__", None)
    code = getattr(function, "__code__", None)
    typed_in = code is not None and code.co_filename.startswith("<")
    if file is None or typed_in or not Path(file).is_file():
        raise ConfigurationError(
            f"task {task.name} cannot run in another process: it was defined at a prompt or in a notebook, "
            "where no other process can import it; move it to a file, or leave out mode='process'"
        )
    path = Path(file).resolve()
    return path.stem, str(path)


def _raised(failure: RemoteFailure) -> BaseException:
    """The exception that a function raised in its process, as one of this process."""
    make = ENDINGS.get(failure.ending or "")
    if make is None:
        return RemoteError(failure.type, failure.message, failure.traceback, failure.not_retried)
    sent = make(**failure.arguments)
    sent.add_note(f"Raised in another process:\n{failure.traceback}")
    if failure.cause is not None:
        sent.__cause__ = _raised(failure.cause)
    return sent


def _show(data: bytes) -> None:
    """Print what functions print and log where it would go without a child: out of the worker."""
    sys.stderr.write(data.decode("utf-8", "replace"))
