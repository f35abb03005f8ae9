"""Command tasks: jobs that run a program, within limits set by whoever registers the task [K8].

    encode = app.command("video.encode", allow=["ffmpeg"], root="/srv/video", timeout="30m")
    encode.enqueue(["ffmpeg", "-i", "a.mov", "a.mp4"], cwd="uploads")

A job says what to run; the registration says what may run. So a job that was put into the queue by the wrong
hands can start the named programs with a working directory inside the named one, and that is all: there is no
shell, no other executable, and no secret in the environment. A job that asks for more is dead at once.

Only the working directory is confined. Arguments are the program's own business: one that takes a path can be
given any path that the worker may read or write, so allow no interpreter, and none that you would not trust
with that.

A process that only makes jobs needs neither the programs nor the directory, and nor does a worker of other
queues. So a worker that lacks them says so when it starts, and starts; a job that needs them fails, and is
tried again where the next worker takes it.
"""

from __future__ import annotations

import asyncio
import logging
import os
import shutil
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypedDict, Unpack

import msgspec

from windlass.core.durations import Duration
from windlass.core.states import Priority, PriorityName
from windlass.endings import Dead, Retry
from windlass.errors import CommandFailed, ConfigurationError
from windlass.running.pipes import ReadEnd, Tail, WriteEnd
from windlass.running.process_group import ProcessGroup, ending, to_the_end
from windlass.tasks.functions import time_limit
from windlass.tasks.task import AsyncTask

if TYPE_CHECKING:
    from windlass.app import Windlass

logger: Final = logging.getLogger("windlass.worker")
KEPT_OUTPUT: Final = 64 * 1024
SHOWN_LINES: Final = 20
SHOWN_CHARACTERS: Final = 1_500
PASSED_ON: Final = ("PATH", "HOME", "LANG")
SETTLE: Final = 0.5
"""How long to wait for the end of the output once the whole group is dead."""
MARGIN: Final = 5.0
"""The task's own timeout is this much longer than the command's, which knows better what to say."""


class CommandResult(msgspec.Struct, frozen=True):
    """How a command ended. `output` is the end of its stdout and stderr, in the order written; `truncated`
    says that there was more."""

    code: int
    output: str
    truncated: bool
    seconds: float


class CommandOptions(TypedDict, total=False):
    """The options of `app.command(...)` beside its limits; see `TaskOptions`."""

    queue: str
    priority: Priority | PriorityName | int
    retry: Retry
    needs: Iterable[str] | str
    tags: Iterable[str]


def command_task(
    app: Windlass,
    name: str,
    *,
    allow: Sequence[str],
    root: str | os.PathLike[str],
    timeout: Duration = "10m",
    env: Mapping[str, str] | None = None,
    **options: Unpack[CommandOptions],
) -> AsyncTask[..., CommandResult]:
    """Register a task `(argv: list[str], cwd: str = ".", stdin: str | None = None) -> CommandResult`.

    `allow` holds bare names, looked up on PATH here and now, and absolute paths. `root` is the directory that
    every `cwd` must lie in. `env` is added to PATH, HOME and LANG, which is all a command gets to see.
    """
    limit = time_limit(f"task {name}: timeout", timeout)
    programs = _programs(name, allow)
    place = os.path.realpath(root)
    extra = dict(env or {})

    async def command(argv: list[str], cwd: str = ".", stdin: str | None = None) -> CommandResult:
        line = _allowed(programs, argv)
        where = _inside(place, cwd)
        return await _run(line, where, stdin, _environment(extra), limit)

    def look_round() -> None:
        for failure in _failures(programs, place):
            logger.warning("task %s: %s; its jobs fail on this worker", name, failure)

    # Two registrations of one name that differ in what they allow must not pass for the same one.
    command.__qualname__ = f"command(allow={sorted(programs)}, root={place!r}, timeout={limit:g})"
    command.__doc__ = f"Run {' or '.join(allow)} in {place}."
    again = name in app.tasks  # a reloaded module
    task = app.task(name=name, timeout=limit + MARGIN, **options)(command)
    if not again:
        app.on_start(look_round)
    return task


async def _run(
    argv: list[str], cwd: str, stdin: str | None, env: Mapping[str, str], limit: float
) -> CommandResult:
    began = time.monotonic()
    given = None if stdin is None else stdin.encode()
    group = ProcessGroup(argv, env=env, cwd=cwd, stdin=given is not None, merged=True)
    tail = Tail(KEPT_OUTPUT)
    output = ReadEnd(group.stdout, tail.add)
    source = None
    if given is not None:
        source = WriteEnd(group.stdin)
        source.write(given, last=True)

    async def finish() -> int:
        code = await group.end()  # also after success: what it left in the background is killed
        if source is not None:
            source.close()
        await output.drained(SETTLE)
        return code

    late = False
    try:
        async with asyncio.timeout(limit):
            await group.exited()
    except TimeoutError:
        late = True
    finally:
        code = await to_the_end(finish())
    result = CommandResult(code, tail.text(), tail.truncated, round(time.monotonic() - began, 3))
    if late:
        raise TimeoutError(
            f"{argv[0]} ran longer than its time limit of {limit:g} s and was killed"
            f"{_last_lines(result.output)}"
        )
    if code != 0:
        raise CommandFailed(f"{argv[0]} {ending(result.code)}{_last_lines(result.output)}", result)
    return result


# -- what may run ---------------------------------------------------------------------------------------


def _programs(task: str, allow: Sequence[str]) -> dict[str, str | None]:
    """Return the names that a job may write as argv[0], and the program of each; None: not here.

    A missing program is no error yet: the process that only makes jobs need not have it.
    """
    if isinstance(allow, str) or not allow:
        raise ConfigurationError(f"task {task}: allow={allow!r} must be a list of programs: ['ffmpeg']")
    programs: dict[str, str | None] = {}
    for entry in allow:
        if not entry or "\0" in entry:
            raise ConfigurationError(f"task {task}: {entry!r} in allow is not a program")
        if os.path.isabs(entry) and os.path.normpath(entry) == entry:
            programs[entry] = entry
        elif os.path.basename(entry) == entry and entry not in (".", ".."):
            found = shutil.which(entry)
            path = programs[entry] = None if found is None else os.path.abspath(found)
            if path is not None:
                programs[path] = path
        else:
            raise ConfigurationError(
                f"task {task}: {entry!r} in allow is neither a bare name such as 'ffmpeg' nor an absolute "
                "path without '..'"
            )
    return programs


def _failures(programs: Mapping[str, str | None], root: str) -> list[str]:
    """Say what is missing on this machine."""
    failures = [
        f"there is no program {name} on this worker"
        for name, path in programs.items()
        if path is None or not os.access(path, os.X_OK)
    ]
    if not os.path.isdir(root):
        failures.append(f"its root {root} is not a directory on this worker")
    return failures


def _allowed(programs: Mapping[str, str | None], argv: Any) -> list[str]:
    """The command as it will be executed. Raises Dead for one that must not be."""
    if not isinstance(argv, list) or not argv:
        raise Dead(f"argv is {argv!r}; it must be a list of a program and its arguments: ['ffmpeg', '-i', …]")
    for place, item in enumerate(argv):
        if not isinstance(item, str):
            raise Dead(f"argv[{place}] is {type(item).__name__}, not text; write every argument as text")
        if "\0" in item:
            raise Dead(f"argv[{place}] holds a NUL byte, which no argument can; remove it")
    if argv[0] not in programs:
        raise Dead(
            f"{argv[0]!r} may not be run: this task allows {', '.join(programs)}; write one of these exactly "
            "so, or add the program to allow= where the task is registered"
        )
    path = programs[argv[0]]
    if path is None:
        raise FileNotFoundError(
            f"{argv[0]} was not on the PATH of this worker when it started; install it and restart the worker"
        )
    return [path, *argv[1:]]


def _inside(root: str, cwd: Any) -> str:
    """The working directory with every link followed. Raises Dead for one outside the root."""
    if not os.path.isdir(root):
        raise NotADirectoryError(f"the root {root} is not a directory on this worker; create or mount it")
    if not isinstance(cwd, str) or "\0" in cwd:
        raise Dead(f"cwd is {cwd!r}; it must be a directory inside {root}")
    where = os.path.realpath(os.path.join(root, cwd))
    if not Path(where).is_relative_to(root):
        raise Dead(
            f"cwd {cwd!r} leads to {where}, outside of {root}; name a directory inside it, or widen root= "
            "where the task is registered"
        )
    return where


def _environment(extra: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of a command: nothing that the worker was told in confidence."""
    passed = {name: os.environ[name] for name in PASSED_ON if name in os.environ}
    return {"PATH": os.defpath, "LANG": "C.UTF-8", **passed, **extra}


def _last_lines(output: str) -> str:
    lines = "\n".join(output.strip().splitlines()[-SHOWN_LINES:])[-SHOWN_CHARACTERS:]
    return f"; its output ends with:\n{lines}" if lines else ", without any output"
