"""The functions that tasks are made of: what may be one, the name it gives its task, and its options."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, NoReturn

from windlass.core.durations import Duration, seconds
from windlass.core.names import derive_name, meant_or_known
from windlass.errors import ConfigurationError


def check_function(function: Any) -> None:
    """Raise ConfigurationError for what cannot be a task's function."""
    generates = inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function)
    if generates or not callable(function):
        raise ConfigurationError(
            f"{function!r} cannot be a task; it takes a plain or an `async def` function"
        )


def name_of(function: Callable[..., Any]) -> str:
    """The name of the task of a function whose author gives none [E4]."""
    try:
        qualname = function.__qualname__
    except AttributeError:
        raise ConfigurationError(f"{function!r} has no name of its own; give one with name=") from None
    return derive_name(_module_of(function), qualname)


def _module_of(function: Callable[..., Any]) -> str:
    """The module as others would import it: a script's own name, not `__main__`, which each process has."""
    module = getattr(function, "__module__", None) or "main"
    if module != "__main__":
        return module
    main = sys.modules["__main__"]
    spec = getattr(main, "__spec__", None)
    if spec is not None:
        return str(spec.name).removesuffix(".__main__")
    return Path(getattr(main, "__file__", None) or "main").stem


def check_options(kind: str, given: Mapping[str, Any], known: Iterable[str]) -> None:
    """Refuse options that there are not. `kind` is what was given them, such as "a task"."""
    if unknown := sorted(given.keys() - set(known)):
        raise ConfigurationError(
            f"{kind} has no option {', '.join(unknown)}{meant_or_known(unknown[0], known)}"
        )


def time_limit(option: str, value: Duration) -> float:
    """The seconds that something may take at most. `option` is whose that is, and its name."""
    try:
        limit = seconds(value)
    except ValueError as error:
        raise ConfigurationError(f"{option}: {error}") from None
    if limit <= 0:
        raise ConfigurationError(f"{option}={value!r} leaves no time; write it like '10m'")
    return limit


class Elsewhere:
    """The name that another library has for `enqueue`: not there, and the error says what to write instead.

    Not a `__getattr__`, which would make every other attribute of a task slower to reach."""

    def __init__(self, method: str = "enqueue") -> None:
        self._method = method

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, task: object | None, owner: type) -> NoReturn:
        own = "task" if task is None else vars(task).get("__name__", "task")
        raise AttributeError(
            f"{owner.__name__!r} object has no attribute {self._name!r}; to make a job write "
            f"{own}.{self._method}(…), with options {own}.using(delay='5s').{self._method}(…)",
            name=self._name,
            obj=task,
        )


def misplaced_options(function: Callable[..., Any], options: Mapping[str, Any]) -> str:
    """Say what to write for options that were passed as arguments of a job."""
    shown = ", ".join(
        f"{name}={value!r}" if isinstance(value, str | int | float) else f"{name}=…"
        for name, value in options.items()
    )
    what = "is an option of the job" if len(options) == 1 else "are options of the job"
    name = getattr(function, "__name__", "task")
    return f"{', '.join(options)} {what}, not of its handler: write {name}.using({shown}).enqueue(…)"
