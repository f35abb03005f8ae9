"""Tasks whose handler takes many jobs at once: `@app.task(batch=100)`.

    @app.task(queue="index", batch=100)
    async def index(pages: list[Page]) -> None:     # up to 100 jobs that wait, in one call
        await search.bulk(pages)

    index.enqueue(page)                             # one job for each page

The handler takes one argument, a list; each job carries one item of it. A batch is what waits at that moment,
it does not wait to be full; it takes one slot. When the handler returns None, all of its jobs have succeeded;
when it raises, each is tried again as its policy says. To tell them apart it returns a list with one entry
for each item: an exception (or `Retry`, `Snooze`, `Dead`) for one that failed, anything else as its result.

Give such a task a queue of its own: a worker claims that many jobs of its queue at once.
"""

from __future__ import annotations

import functools
import inspect
import typing
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, ParamSpec, Protocol, TypeVar, cast

from windlass.errors import ConfigurationError
from windlass.tasks.functions import check_function
from windlass.tasks.payload import Signature
from windlass.tasks.task import RegisteredTask, TaskOptions

if TYPE_CHECKING:
    from windlass.app import Windlass

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")
MAX_BATCH: Final = 10_000


class BatchTask(RegisteredTask[P, Any]):
    """A task whose handler takes many jobs at once; `@app.task(batch=…)` makes it. As a type checker sees
    it, a job has one item as its argument."""

    def __init__(self, app: Windlass, function: Callable[..., Any], size: int, options: TaskOptions) -> None:
        check_function(function)
        if type(size) is not int or not 1 <= size <= MAX_BATCH:
            raise ConfigurationError(f"batch={size!r} must be a whole number from 1 to {MAX_BATCH:,}")
        if options.get("mode") == "process":
            raise ConfigurationError("batch= and mode='process' do not go together; leave one of them out")
        self.batch_size = size
        super().__init__(app, function, options)

    def __call__(self, items: list[Any]) -> Any:
        """Run the handler here and now; awaited, where it is `async def`."""
        return cast("Callable[[list[Any]], Any]", self.function)(items)

    def _signature(self, function: Callable[..., Any]) -> Signature:
        """That of one job: the handler's, with an item where it takes a list."""
        parameters = list(inspect.signature(function).parameters.values())
        wish = f"task {self.name}: with batch= its handler takes one argument, a list: (pages: list[Page])"
        if len(parameters) != 1 or parameters[0].kind is not inspect.Parameter.POSITIONAL_OR_KEYWORD:
            raise ConfigurationError(wish)
        try:
            whole = typing.get_type_hints(function, include_extras=True).get(parameters[0].name, list)
        except NameError as error:
            raise ConfigurationError(f"{wish}; its annotation cannot be read yet: {error}") from None
        if (typing.get_origin(whole) or whole) is not list:
            raise ConfigurationError(wish)

        @functools.wraps(function)
        def one(*args: Any, **kwargs: Any) -> None: ...

        item = next(iter(typing.get_args(whole)), Any)
        own = parameters[0].replace(annotation=item)
        one.__signature__ = inspect.Signature([own])  # type: ignore[attr-defined]
        return Signature(self.name, one)


class BatchDecorator(Protocol):
    """The decorator of `app.task(batch=…)`, which turns a function of a list into a task for its items."""

    def __call__(self, function: Callable[[list[T]], Any], /) -> BatchTask[[T]]: ...
