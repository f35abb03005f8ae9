"""Passing words on: the commands pass their words on to the command `windlass`, with the database of a
backend of TASKS. Django's own flags that mean something here are `--settings` and `--pythonpath`."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import Any

import click
from django.core.management.base import BaseCommand, CommandError

from windlass.app import Windlass
from windlass.cli import main
from windlass.contrib.django.app import BACKEND, first_backend, get_app, reread
from windlass.settings import PREFIX


class Passing(BaseCommand):
    """A command that passes its words on. From code: `call_command("windlass", "--", "queues", "--json")`."""

    requires_system_checks: Sequence[str] = []

    def words(self, app: Windlass, given: list[str]) -> list[str]:
        """Return the words for `windlass`."""
        return given

    def run_from_argv(self, argv: list[str]) -> None:
        """From the command line: every word but ours is the command's."""
        parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False)
        for flag in ("--backend", "--settings", "--pythonpath"):
            parser.add_argument(flag)
        own, given = parser.parse_known_args(argv[2:])
        self._let_children_import(2 if own.pythonpath else 1)
        main.main(self._prepare(own.backend, given), prog_name=f"{os.path.basename(argv[0])} windlass")

    def add_arguments(self, parser: Any) -> None:
        """From code."""
        parser.add_argument("words", nargs="*")
        parser.add_argument("--backend")

    def handle(self, *args: Any, words: list[str], backend: str | None = None, **options: Any) -> None:
        """From code: what would be a message and an exit code is a CommandError."""
        try:
            main.main(self._prepare(backend, words), prog_name="windlass", standalone_mode=False)
        except click.ClickException as error:
            raise CommandError(error.format_message(), returncode=error.exit_code) from error

    def _prepare(self, backend: str | None, given: list[str]) -> list[str]:
        alias = backend or first_backend()
        app = get_app(alias)
        # In the environment: every verb reads it there, and so do the processes of a worker.
        os.environ[BACKEND] = alias
        os.environ[f"{PREFIX}DATABASE_URL"] = app.settings.database_url
        os.environ[f"{PREFIX}SCHEMA"] = app.settings.schema
        words = self.words(app, given)
        reread(app)  # flags of the command become variables, and ours have
        return words

    def _let_children_import(self, entries: int) -> None:
        """A worker's processes find the project where this one did, from whatever directory it was
        started."""
        places = [os.path.abspath(place) for place in sys.path[:entries]]
        inherited = os.environ.get("PYTHONPATH")
        os.environ["PYTHONPATH"] = os.pathsep.join([*places, *([inherited] if inherited else [])])
