"""The types of what `app.task(...)` and `app.chunked(...)` return: they keep the types of the function.
At run time each is a plain task, and nothing of this is called."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar, overload

from windlass.running.context import Context
from windlass.tasks.task import AsyncTask, RegisteredTask, SyncTask

if TYPE_CHECKING:
    from windlass.chunks.parts import Part
    from windlass.chunks.task import ChunkedTask

P = ParamSpec("P")
R = TypeVar("R")


class SyncContextTask(RegisteredTask[P, R]):
    """A SyncTask whose function takes its context first, as a type checker sees it: `enqueue` does without
    the context, a direct call does not. At run time there is no difference to tell."""

    def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> R:
        """Run the function here and now; `Context.for_test()` makes a context."""
        raise NotImplementedError


class AsyncContextTask(RegisteredTask[P, R]):
    """An AsyncTask whose function takes its context first, as a type checker sees it; see
    SyncContextTask."""

    def __call__(self, context: Context, /, *args: P.args, **kwargs: P.kwargs) -> Coroutine[Any, Any, R]:
        """Run the function here and now, when awaited; `Context.for_test()` makes a context."""
        raise NotImplementedError


class TaskDecorator(Protocol):
    """The decorator of `app.task(...)`, which turns a function into a task and keeps its types."""

    @overload  # the closer match comes first: with a context, `async def`
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[Concatenate[Context, P], Coroutine[Any, Any, R]], /
    ) -> AsyncContextTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[Concatenate[Context, P], R], /) -> SyncContextTask[P, R]: ...
    @overload
    def __call__(  # type: ignore[overload-overlap]
        self, function: Callable[P, Coroutine[Any, Any, R]], /
    ) -> AsyncTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> SyncTask[P, R]: ...


class ChunkedDecorator(Protocol):
    """The decorator of `app.chunked(...)`, which turns a function of a part into a task and keeps its
    types."""

    @overload
    def __call__(
        self, handler: Callable[Concatenate[Part, P], Coroutine[Any, Any, Any]], /
    ) -> ChunkedTask[P, Coroutine[Any, Any, Any]]: ...
    @overload
    def __call__(self, handler: Callable[Concatenate[Part, P], Any], /) -> ChunkedTask[P, Any]: ...
