"""The base of handles: it holds the app, asks its store each time anew, and runs operations, which are those
of the commands, the API and the pages."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, TypeVar

from windlass.operations.operation import CODE, Ops

if TYPE_CHECKING:
    from windlass.app import Windlass
    from windlass.running.store_handle import StoreHandle

T = TypeVar("T")


class _Handle:
    """The base of handles, and nothing on its own."""

    __slots__ = ("_app",)

    def __init__(self, app: Windlass) -> None:
        self._app = app

    def _store_handle(self) -> StoreHandle:
        return self._app._store_handle()

    def _run(self, operation: Callable[[Ops], Awaitable[T]]) -> T:
        """Run an operation from any thread, as the program."""
        return self._store_handle().call(lambda store: operation(Ops(self._app, store, CODE)))

    async def _arun(self, operation: Callable[[Ops], Awaitable[T]]) -> T:
        """Run an operation from any loop, as the program."""
        return await self._store_handle().acall(lambda store: operation(Ops(self._app, store, CODE)))
