"""The verb that people leave running: worker. What it does lives in `windlass.worker`."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path
from typing import Any, get_args

import click
import msgspec

from windlass.app import Windlass
from windlass.cli.options import database_option, log_options, schema_option
from windlass.cluster.queues import seed
from windlass.core.abilities import in_words
from windlass.core.counts import plural
from windlass.core.names import did_you_mean
from windlass.errors import ConfigurationError
from windlass.running.loopthread import loop_name, prefer_uvloop
from windlass.running.store_handle import patiently
from windlass.settings import PREFIX, Settings, StartMethod, load
from windlass.store.factory import describe, is_in_memory
from windlass.tasks.loading import load_app
from windlass.worker.engine.waiting import wait_for_store
from windlass.worker.processes.reload import watch
from windlass.worker.processes.supervisor import Supervisor, logger
from windlass.worker.reports.health import Health, parse_address


@click.command()
@click.argument("app", metavar="MODULE[:APP]")
@click.option(
    "-q",
    "--queue",
    "queues",
    multiple=True,
    metavar="NAME[=SLOTS]",
    help="A queue to serve; if it is new, with its slots in the cluster (mail=8) or in each process "
    "(mail=4/process); may be repeated. [all queues of the app; WINDLASS_QUEUES]",
)
@click.option(
    "--ability",
    "abilities",
    multiple=True,
    metavar="NAME",
    help="What this worker has that some jobs need, such as gpu; may be repeated. [WINDLASS_ABILITIES]",
)
@click.option("-p", "--processes", type=click.IntRange(1), help="Child processes. [WINDLASS_PROCESSES, 1]")
@click.option(
    "--id",
    "worker_id",
    metavar="ID",
    help="The last part of the label, kept over restarts. [WINDLASS_WORKER_ID, random]",
)
@click.option(
    "--start",
    type=click.Choice(get_args(StartMethod)),
    help="Fork children from a process that has imported the app, or start each anew. [fork]",
)
@click.option(
    "--import",
    "imports",
    multiple=True,
    metavar="MODULE",
    help="Import this module for its tasks; may be repeated.",
)
@click.option("--lease", metavar="DURATION", help="How long a silent worker keeps its jobs. [30s]")
@click.option("--sweep", metavar="DURATION", help="How often to look for dead workers, at least. [15s]")
@click.option("--shutdown", metavar="DURATION", help="How long jobs may take to finish on SIGTERM. [30s]")
@click.option("--max-jobs", type=click.IntRange(0), help="Replace a child after this many jobs.")
@click.option("--max-memory", metavar="SIZE", help="Replace a child that uses more memory, such as 512MiB.")
@click.option("--health", metavar="HOST:PORT", help="Serve /healthz and /readyz here. [WINDLASS_HEALTH]")
@log_options
@click.option(
    "--reload", "reloads", is_flag=True, help="Replace the children when code in this directory changes."
)
@database_option
@schema_option
def worker(app: str, reloads: bool, health: str | None, **flags: Any) -> None:
    """Run the jobs of an app until stopped: `windlass worker myapp:app -q mail=8 -q imports=2 -p 2`.

    The first SIGTERM or Ctrl-C lets running jobs finish and returns the rest to their queues; the second
    returns all of them at once. Neither costs a job an attempt."""
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    given["database_url"] = given.pop("database", None)
    _hand_down(given)
    loaded = load_app(app)
    settings = _settings(loaded)
    _warn_of_strange_queues(loaded, settings)
    with contextlib.suppress(KeyboardInterrupt), asyncio.Runner(loop_factory=prefer_uvloop()) as runner:
        runner.run(_run(app, loaded, settings, health or os.environ.get("WINDLASS_HEALTH"), reloads))


def _hand_down(flags: dict[str, Any]) -> None:
    """Flags become environment variables, so that the children read the very same settings. They are checked
    first, as flags: an error should name the flag and not a variable."""
    load(flags=flags)
    for name, value in flags.items():
        if value is not None:
            text = ",".join(value) if isinstance(value, tuple) else str(value)
            os.environ[PREFIX + name.upper()] = text


def _settings(app: Windlass) -> Settings:
    settings = app.settings
    app.discover(*settings.imports)
    if is_in_memory(settings.database_url):
        raise ConfigurationError(
            "jobs in :memory: live in one process, so no worker process could see them; use sqlite:///jobs.db"
        )
    if settings.queues:
        return settings
    return msgspec.structs.replace(settings, queues=dict.fromkeys(_task_queues(app)))


def _task_queues(app: Windlass) -> list[str]:
    return sorted({task.queue for task in app.tasks.values()})


def _warn_of_strange_queues(app: Windlass, settings: Settings) -> None:
    """A name with a typo in it would be served for ever, with nothing to do. It may be meant: a job can go to
    any queue when it is enqueued."""
    known = _task_queues(app)
    for queue in settings.queues:
        if queue not in known:
            logger.warning(
                "no task of this app uses queue %s by default; the tasks use: %s%s",
                queue,
                ", ".join(known),
                did_you_mean(queue, known),
            )


async def _run(address: str, app: Windlass, settings: Settings, health: str | None, reloads: bool) -> None:
    logger.info(
        "windlass worker on %s: queues %s, %s%s; event loop: %s",
        describe(settings.database_url),
        ", ".join(f"{name}={slots}" if slots else name for name, slots in settings.queues.items()),
        plural(settings.processes, "process", "processes"),
        f", {in_words(settings.abilities)}" if settings.abilities else "",
        loop_name(asyncio.get_running_loop()),
    )
    supervisor: Supervisor | None = None

    def ready() -> tuple[bool, dict[str, object]]:
        return (False, {"store": "not open"}) if supervisor is None else supervisor.readiness()

    server = Health(ready)
    if health is not None:
        host, port = parse_address(health)
        logger.info("health on http://%s:%d/readyz", host, await server.start(host, port))
    watching: asyncio.Task[None] | None = None
    try:
        async with app._store_handle().here(wait_for_store) as store:
            await patiently(lambda: seed(store, settings.queues), wait_for_store)
            supervisor = Supervisor(store, address, settings, os.environ, reloads=reloads)
            if reloads:
                watching = asyncio.create_task(watch(Path.cwd(), supervisor.reload))
            await supervisor.run()
    finally:
        if watching is not None:
            watching.cancel()
        await server.stop()
