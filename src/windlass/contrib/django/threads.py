"""How the jobs of a Django project run where a test asks for them: plain functions, and what async ones do
through `sync_to_async`, in the thread of the test, on whose database connection its transaction is [E1]."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from asgiref.sync import async_to_sync, sync_to_async

T = TypeVar("T")


class DjangoThread:
    """The thread that asked for the jobs to be run. Django's own async tests lend theirs in the same way."""

    def drive(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine on a loop beside this thread, which runs what it is called back for meanwhile."""

        async def work() -> T:
            return await coroutine

        found: T = async_to_sync(work)()
        return found

    async def run(self, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        """Call a plain function in that thread, one at a time, with this task's context."""
        return await sync_to_async(functools.partial(function, *args, **kwargs))()

    def close(self) -> None:
        """The thread is the caller's."""
