"""The program of a child that runs plain Python task functions:
`python -m windlass.worker.handlers.python_child`.

It reads one `Request` a line and writes one `Answer` a line, on copies of its first stdin and stdout. What
functions print goes to stderr, and they find their stdin empty, so neither can disturb the conversation.

Functions run in the main thread. Another one reads: when the input ends, the parent wants this process gone
or is gone itself, and then nothing may stay behind, not even in the middle of a function [K8].
"""

from __future__ import annotations

import contextlib
import faulthandler
import functools
import importlib
import os
import queue
import signal
import sys
import threading
import time
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import ModuleType
from typing import IO, Any, Final

import msgspec

from windlass.core.retry_rules import NO_RULES, RetryRules
from windlass.endings import Cancelled, Dead, Retry, Snooze, SourceGone, Throttled
from windlass.errors import ConfigurationError
from windlass.running.failures import clean, describe
from windlass.tasks.loading import load_app
from windlass.tasks.registry import _Registry
from windlass.tasks.task import RegisteredTask, Task
from windlass.worker.handlers.results import keep

LEAVE: Final = 1.0
"""How long exit handlers may take after the input has ended."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Run one task with one payload."""

    task: str
    payload: str
    module: str
    """Where the task's function is defined; the name to load the script by, where that is a script."""
    script: str | None = None
    """The file of the parent's `__main__`, for a function that is defined there."""
    spec: str | None = None
    """The app as `module:attribute`, where it has such an address."""
    path: list[str] = []
    """The parent's sys.path: what it can import, its child can."""


class RemoteFailure(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The error that a function raised. `ending` names one of `windlass.endings`, `arguments` are what makes
    it again; `cause` is what it was raised from."""

    type: str
    message: str
    traceback: str
    ending: str | None = None
    arguments: dict[str, Any] = {}
    cause: RemoteFailure | None = None
    not_retried: str | None = None
    """Why the task's policy does not retry it: only here its class is known [O9]."""


class Answer(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The answer to a call: the return value as JSON text (None for None), or an error."""

    result: str | None = None
    error: RemoteFailure | None = None


def main() -> None:
    """Serve requests until the input ends. SIGUSR2 has it write where it stands to stderr, and end."""
    # Works while a function holds the interpreter. What is next in the chain is the end of the process.
    faulthandler.register(signal.SIGUSR2, all_threads=True, chain=True)
    source, answers = _take_over()
    printed = sys.stdout
    inbox: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
    at_work = threading.Event()
    threading.Thread(target=_read, args=(source, inbox, at_work), daemon=True).start()
    while (line := inbox.get()) is not None:
        answer = answer_to(msgspec.json.decode(line, type=Request))
        with contextlib.suppress(OSError, ValueError):  # a function may have closed it
            printed.flush()
        at_work.clear()
        answers.write(msgspec.json.encode(answer) + b"\n")
        answers.flush()


def answer_to(request: Request) -> Answer:
    """Run the task, whatever it does."""
    rules = NO_RULES
    try:
        task = find_task(request)
        rules = task.retry.rules
        return Answer(result=_run(task, request))
    except BaseException as error:  # noqa: BLE001 - it is the parent's to judge
        return Answer(error=_failure(error, rules))


def _run(task: RegisteredTask[..., Any], request: Request) -> str | None:
    args, kwargs = task.signature.decode(request.payload)
    return keep(task.function(*args, **kwargs))


# -- finding the task -----------------------------------------------------------------------------------


def find_task(request: Request) -> RegisteredTask[..., Any]:
    """The task of this name: of the app, where its address is known, else of those its module shows."""
    if sys.path != request.path:
        sys.path[:] = request.path
    if request.spec is not None:
        app = _app(request.spec)
        if request.task not in app.tasks:
            _load(request)  # a module that the app's own does not import
        if request.task in app.tasks:
            return app.tasks[request.task]
    shown = list(vars(_load(request)).values())
    for value in shown:
        if isinstance(value, RegisteredTask) and value.name == request.task:
            return value
    for value in shown:
        app = value.app if isinstance(value, Task) else value
        if isinstance(app, _Registry) and request.task in app.tasks:
            return app.tasks[request.task]
    raise ConfigurationError(
        f"task {request.task} is not there after importing {request.module} in a new process; define its "
        "function at the top level of that module, not inside another function or under `if __name__ == "
        "'__main__'`, and have its decorators use functools.wraps"
    )


_app = functools.cache(load_app)  # one that is made by a call is made once


def _load(request: Request) -> ModuleType:
    return importlib.import_module(request.module) if request.script is None else _script(request)


def _script(request: Request) -> ModuleType:
    """The parent's script, run once more under the name it would be imported by.

    Under that name its tasks get the names they have in the parent, types that annotations mention can be
    found, and what stands under `if __name__ == "__main__"` does not run.
    """
    path = Path(request.script or "")
    known = sys.modules.get(request.module)
    if known is not None:
        if Path(getattr(known, "__file__", None) or "").resolve() == path:
            return known
        raise ConfigurationError(
            f"{path} cannot be loaded in a new process: a module {request.module} exists already; "
            "rename the script, or move its tasks to a module of another name"
        )
    spec = spec_from_file_location(request.module, path)
    if spec is None or spec.loader is None:
        raise ConfigurationError(f"{path} is no Python file; move its tasks to a module")
    module = sys.modules[request.module] = module_from_spec(spec)
    sys.argv = [str(path)]
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[request.module]
        raise
    return module


# -- saying what went wrong -----------------------------------------------------------------------------


def _failure(error: BaseException, rules: RetryRules = NO_RULES) -> RemoteFailure:
    failure = describe(_without_our_frames(error), 0)
    plain = RemoteFailure(
        type=failure.type,
        message=failure.message,
        traceback=failure.traceback,
        not_retried=rules.refusal(error),
    )
    try:
        name, arguments = _ending(error)
    except AttributeError:  # a subclass that never called our __init__ is like any other exception
        return plain
    if name is None:
        return plain
    cause = error.__cause__
    found = None if cause is None else describe(cause, 0)
    return msgspec.structs.replace(
        plain,
        ending=name,
        arguments=arguments,
        cause=found and RemoteFailure(type=found.type, message=found.message, traceback=found.traceback),
    )


def _ending(error: BaseException) -> tuple[str | None, dict[str, Any]]:
    match error:
        case Retry():
            backoff = msgspec.structs.asdict(error.backoff)
            waits = error.backoff.waits or None
            return "Retry", {"attempts": error.attempts, "after": error.after, **backoff, "waits": waits}
        case Snooze():
            return "Snooze", {"delay": error.delay}
        case Throttled():
            return "Throttled", {"retry_after": error.retry_after}
        case Dead():
            return "Dead", {"reason": clean(str(error.reason))}
        case SourceGone() | Cancelled():
            word = "SourceGone" if isinstance(error, SourceGone) else "Cancelled"
            return word, {"reason": clean(str(error.reason))}
    return None, {}


def _without_our_frames(error: BaseException) -> BaseException:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    return error if trace is None else error.with_traceback(trace)


# -- the pipes ------------------------------------------------------------------------------------------


def _take_over() -> tuple[IO[bytes], IO[bytes]]:
    """The pipes to the parent, moved to where functions do not reach them."""
    source, answers = os.dup(0), os.dup(1)
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    return os.fdopen(source, "rb"), os.fdopen(answers, "wb")


def _read(source: IO[bytes], inbox: queue.SimpleQueue[bytes | None], at_work: threading.Event) -> None:
    for line in source:
        at_work.set()
        inbox.put(line)
    inbox.put(None)
    if not at_work.is_set():
        time.sleep(LEAVE)  # the main thread ends the process, with its exit handlers
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)  # with whatever a function has started
    os._exit(1)


if __name__ == "__main__":
    main()
