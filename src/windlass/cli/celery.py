"""Answers in our words to what Celery's users write: what it is called here, and how to write it."""

from __future__ import annotations

from typing import Final

import click

from windlass.core.names import did_you_mean

_COMMANDS: Final = {
    "beat": "there is no beat process: workers fire the schedules themselves; see `windlass schedules`",
    "call": "it is `windlass enqueue TASK ARGUMENTS`",
    "control": "it is `windlass queue set QUEUE …` and `windlass job cancel ID`",
    "flower": "it is `windlass web`",
    "inspect": "it is `windlass workers`, `windlass top` and `windlass jobs --state running`",
    "multi": "it is `windlass worker MODULE:APP -p PROCESSES`",
    "purge": "it is `windlass dead purge` for dead jobs, and Mission Control's bulk delete for others",
    "result": "it is `windlass job show ID`",
    "status": "it is `windlass workers`",
}
_APP: Final = "the app is named by its module and attribute: `windlass worker shop.tasks:app`"
_OPTIONS: Final = {
    "-A": f"{_APP}, or --app shop.tasks:app for other commands",
    "-b": "it is --database, the setting database_url or WINDLASS_DATABASE_URL: there is no broker beside it",
    "-B": "no worker needs it: they fire schedules themselves",
    "-c": "slots are counted for each queue, over all workers: `-q mail=8`, or `-q mail=4/process`; "
    "processes are -p",
    "-D": "a service manager keeps it in the background: see the guide on deploying",
    "-E": "no worker needs it: `windlass events` lists what happened",
    "-l": "it is --log-level",
    "-n": "it is --id, for a name that is kept, or the setting label_prefix",
    "-O": "no worker needs it: a long job is taken only where a slot is free",
    "-P": "the task says so: `async def` runs on the loop, `def` in a thread, mode='process' in a process",
    "-Q": "it is -q, once for each queue: `-q mail=8 -q imports=2`",
    "--autoscale": "slots are set while all runs: `windlass queue set mail --max-workers 20`",
    "--max-tasks-per-child": "it is --max-jobs",
    "--max-memory-per-child": "it is --max-memory",
    "--prefetch-multiplier": "no worker needs it: a long job is taken only where a slot is free",
    "--time-limit": "the task says so: `@app.task(timeout='5m')`",
}
_LONG: Final = {
    "--app": "-A",
    "--broker": "-b",
    "--concurrency": "-c",
    "--detach": "-D",
    "--soft-time-limit": "--time-limit",
    "--beat": "-B",
    "--pool": "-P",
    "--queues": "-Q",
    "--hostname": "-n",
}


def command(name: str, known: list[str]) -> str:
    """Return what to say of a command that there is not."""
    hint = f": {said}" if (said := _COMMANDS.get(name)) else did_you_mean(name, known)
    return f"No such command {name!r}{hint}"


def option(error: click.NoSuchOption) -> click.UsageError:
    """Return the error to raise for an option that there is not."""
    name = error.option_name
    said = _OPTIONS.get(_LONG.get(name, name))
    return error if said is None else click.UsageError(f"No such option {name!r}: {said}", error.ctx)
