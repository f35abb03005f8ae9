"""From flags to an open store: which app and settings a verb works with, and a loop to run it on.

A store that cannot be opened, or that fails, becomes one line that says where and what to do next; a password
never gets into it [M6].

What a verb has changed goes into the timeline, as what is changed in the browser does [M2]. No verb fails
for that.
"""

from __future__ import annotations

import asyncio
import getpass
import logging
import os
import re
from collections.abc import Awaitable, Callable, Iterable
from functools import cached_property
from typing import Any, Final, TypeVar
from urllib.parse import parse_qsl, unquote, urlsplit

import click

from windlass.app import Windlass
from windlass.errors import ConfigurationError, StoreError
from windlass.operations.operation import Operation, Ops
from windlass.operations.principal import Principal, Role
from windlass.presentation import audit
from windlass.presentation.audit import AuditEntry
from windlass.presentation.text import one_line
from windlass.settings import Settings, load
from windlass.store.factory import SQLITE, describe, kind_of, sqlite_path
from windlass.store.protocol import Store
from windlass.tasks.loading import load_app

R = TypeVar("R")
T = TypeVar("T")
logger: Final = logging.getLogger("windlass.cli")


class Target:
    """The target of a verb: the app that --app names, or one without tasks; flags override its settings."""

    def __init__(self, *, database: str | None, schema: str | None, app: str | None) -> None:
        self._flags = {"database_url": database, "schema": schema}
        self.app_name = app

    @cached_property
    def app(self) -> Windlass:
        """The app, with the flags over its settings."""
        app = load_app(self.app_name) if self.app_name else Windlass()
        if any(self._flags.values()):
            app.close()
            app._built = None
            app.settings = load(code=app._code, flags=self._flags)
        return app

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.app.settings

    @property
    def place(self) -> str:
        """Where jobs live, as it may be shown."""
        return describe(self.settings.database_url)

    def run(self, work: Callable[[Store], Awaitable[T]], *, create: bool = False) -> T:
        """Do something with the open store. Without `create`, a SQLite file must be there already: a verb
        that looks must not answer a mistyped path with an empty database."""
        return self.act(work, lambda _: (), create=create)

    def act(
        self,
        work: Callable[[Store], Awaitable[T]],
        deeds: Callable[[T], Iterable[AuditEntry]],
        *,
        create: bool = False,
    ) -> T:
        """Do something as an operator: what it was, by its answer, is recorded in the timeline [M2]."""
        place = self.place
        if not create and (missing := self.missing()):
            raise click.ClickException(missing)

        async def recorded(store: Store) -> T:
            answer = await work(store)
            await record(store, deeds(answer))
            if store.read_only:
                click.echo(f"Note: {store.read_only}", err=True)
            return answer

        try:
            return self.ask(recorded)
        except (StoreError, ConfigurationError) as error:
            raise click.ClickException(f"{place}: {self.error_text(error)}") from error

    def operate(self, operation: Operation[Any, R], **arguments: Any) -> tuple[R, str]:
        """Run an operation; return its answer, and what was done in a sentence. Settings may make a store."""

        async def work(ops: Ops) -> tuple[R, str]:
            return await operation(ops, **arguments), ops.said

        return self.with_ops(
            work, create=operation.status == 201 or any(param.settings for param in operation.params)
        )

    def with_ops(self, work: Callable[[Ops], Awaitable[T]], *, create: bool = False) -> T:
        """Do something that may take several operations; all they did is recorded in the timeline [M2]."""

        async def operated(store: Store) -> tuple[T, Ops]:
            ops = Ops(self.app, store, Principal(operator(), Role.OPERATE))
            return await work(ops), ops

        return self.act(operated, lambda done: done[1].deeds, create=create)[0]

    def missing(self) -> str | None:
        """Why there is nothing to look at, where jobs would live in a SQLite file that is not there."""
        url = self.settings.database_url
        if self.app._given is not None or kind_of(url) != SQLITE or os.path.exists(sqlite_path(url)):
            return None
        return (
            f"{self.place}: there is no such file yet; point --database or WINDLASS_DATABASE_URL at yours, "
            "or enqueue a first job"
        )

    def error_text(self, error: Exception) -> str:
        """An error on one line. A driver may quote what it was given; a password must not get out so."""
        return without_password(one_line(str(error)), self.settings.database_url)

    def ask(self, work: Callable[[Store], Awaitable[T]], *, timeout: float | None = None) -> T:
        """Do something with the open store. Unlike `run` it raises, for those who look for faults, and
        TimeoutError where opening it and the work take longer than `timeout`."""
        return asyncio.run(self._within(work, timeout))

    async def _within(self, work: Callable[[Store], Awaitable[T]], timeout: float | None) -> T:
        async with asyncio.timeout(timeout), self.app, self.app._store_handle().here() as store:
            return await work(store)


def without_password(message: str, url: str) -> str:
    """A text with the URL taken out, and its password wherever that stands by itself, as in a URL or a DSN.
    Inside a word it is no password: a short one would else take every word apart."""
    if not url or (url.startswith("sqlite:") and "?" not in url):  # a path, which an answer may have to name
        return message
    message = message.replace(url, "***")
    for secret in passwords_in(url):
        message = re.sub(rf"(?<!\w){re.escape(secret)}(?!\w)", "***", message)
    return message


def passwords_in(url: str) -> list[str]:
    """Return the passwords that a database URL holds, as they stand there and as they are."""
    try:
        parts = urlsplit(url)
    except ValueError:  # it is no URL, and will be refused
        return []
    asked = [value for name, value in parse_qsl(parts.query) if name in ("password", "sslpassword")]
    return [secret for secret in (parts.password, unquote(parts.password or ""), *asked) if secret]


def operator() -> str:
    """Who runs the command: the name of the account."""
    try:
        return f"{getpass.getuser()}@cli"
    except (OSError, KeyError, ImportError):  # an account without a name, as in some containers
        return "cli"


async def record(store: Store, deeds: Iterable[AuditEntry]) -> None:
    """Record in the timeline what was done."""
    if failure := await audit.record(store, deeds, operator()):
        logger.debug("the action is not in the timeline: %s", failure)
