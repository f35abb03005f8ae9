"""The command `windlass`. Each group of verbs lives in a module of its own, which is imported when one of its
verbs runs: `windlass --help` must not wait for what a worker needs.

Errors that Windlass raises on purpose become one line and exit code 1; a command that makes no sense as
written is exit code 2; anything else is a bug and keeps its traceback. No line ever holds a password.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

import click

from windlass import __version__
from windlass.errors import WindlassError

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

VERBS: Final = {
    "backup": ("moving.backup", "Copy a SQLite store that is in use to a file."),
    "bench": ("demo", ""),
    "budget": ("budgets", "Set, drain, take from and remove budgets."),
    "budgets": ("budgets", "List budgets: rates, tokens, breakers."),
    "copy": ("moving.copy", "Copy what waits in a SQLite store to PostgreSQL."),
    "dead": ("dead", "List, retry and purge jobs that failed for good."),
    "demo": ("demo", "Import a file, kill a worker half-way, lose nothing."),
    "doctor": ("doctor", "Look for problems and say how to fix them."),
    "enqueue": ("enqueue", "Enqueue a job by the name of its task."),
    "events": ("events", "List what happened lately."),
    "gates": ("flow", "List gates with held jobs: keys, limits, ordering, budgets."),
    "group": ("parents.commands", "Show, close and cancel groups of jobs."),
    "job": ("jobs", "Show, follow, signal, retry, cancel, replay jobs, by id."),
    "jobs": ("jobs", "List jobs."),
    "maintain": ("maintain", "Run one of the coordinator's duties by hand."),
    "migrate": ("database", "Bring the database's schema up to date."),
    "parent": ("parents.commands", "Show, manage and redrive jobs that have parts."),
    "parents": ("parents.commands", "List jobs that were split into parts."),
    "queue": ("queues", "Pause, resume and configure queues."),
    "queues": ("queues", "List queues: depth, oldest job, slots, state."),
    "reconcile": ("tasks", "Enqueue what tasks report as missing."),
    "schedules": ("schedules", "List, run, pause and backfill schedules."),
    "sql": ("database", "Print the PostgreSQL schema as SQL."),
    "task": ("tasks", "Change the settings of a task."),
    "tasks": ("tasks", "List tasks: their ready jobs and settings."),
    "top": ("top", "Watch queues and workers live."),
    "watermarks": ("flow", "List how far the ordering keys of a queue have come."),
    "waits": ("jobs", "List jobs that wait for a signal."),
    "web": ("web", "Serve Mission Control, the JSON API and /metrics."),
    "worker": ("worker", "Run the jobs of an app."),
    "workers": ("top", "List workers and whether they are alive."),
}
"""Every verb, the module it lives in, and its line in `windlass --help`; without a line it is not listed."""


class Commands(click.Group):
    """A group whose commands may raise WindlassError."""

    def invoke(self, context: click.Context) -> Any:
        """Run the command; say in one line what went wrong."""
        try:
            return super().invoke(context)
        except WindlassError as error:
            from windlass.presentation.text import one_line

            raise click.ClickException(one_line(str(error))) from error


class Verbs(Commands):
    """The group of all verbs, which imports a verb when it is asked for."""

    def list_commands(self, context: click.Context) -> list[str]:
        """The names of all verbs."""
        return list(VERBS)

    def resolve_command(
        self, context: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the verb; say which one may be meant by one that there is not."""
        name = args[0]
        if name not in VERBS and not name.startswith("-"):
            from windlass.core.names import did_you_mean

            context.fail(f"No such command {name!r}{did_you_mean(name, list(VERBS))}")
        return super().resolve_command(context, args)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """The verb of this name."""
        if name not in VERBS:
            return None
        command = getattr(import_module(f"windlass.cli.{VERBS[name][0]}"), name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, context: click.Context, incomplete: str) -> list[CompletionItem]:
        """The verbs that begin like this, without importing any, and the options of `windlass` itself."""
        from click.shell_completion import CompletionItem

        verbs = [CompletionItem(name, help=line) for name, (_, line) in VERBS.items() if line]
        options = click.Command.shell_complete(self, context, incomplete)
        return [*(verb for verb in verbs if verb.value.startswith(incomplete)), *options]

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of verbs without importing any."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, line) for name, (_, line) in VERBS.items() if line])


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="windlass")
def main() -> None:
    """A durable job engine: millions of small jobs, and heavy work that resumes where it stopped."""
