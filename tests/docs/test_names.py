"""One rule for names: what reads or writes has a plain name, and one with an `a` before it for `await`."""

import inspect
from collections.abc import Callable, Iterator
from importlib import import_module
from typing import Any

import pytest

from tests.docs.reference.python import HANDED, HIDDEN, exported, modules

ON_A_LOOP = {
    "AsyncBatch": {"done"},
    "Context": {"emit", "step", "sleep", "sleep_until", "wait"},
    "Part": {"emit", "step", "sleep", "sleep_until", "wait"},
    "WarmPool": {"call", "close"},
    "Worker": {"run"},
}
"""What there is on an event loop only, so that nothing plain can stand beside it. The plain twins of what a
context awaits by a plain name are in `ctx.blocking`."""


def _public() -> Iterator[type[Any]]:
    for module in modules():
        yield from (found for name in exported(module) if inspect.isclass(found := getattr(module, name)))
    for home, names in HANDED.items():
        yield from (getattr(import_module(home), name) for name in names)


def _methods(owner: type) -> dict[str, Callable[..., Any]]:
    found = inspect.getmembers(owner, inspect.isfunction)
    hidden = HIDDEN.get(owner.__name__, set()) | ON_A_LOOP.get(owner.__name__, set())
    return {name: method for name, method in found if not name.startswith("_") and name not in hidden}


def _is_awaited(method: Callable[..., Any]) -> bool:
    return inspect.iscoroutinefunction(method) or inspect.isasyncgenfunction(method)


def _parameters(method: Callable[..., Any]) -> list[tuple[str, Any]]:
    return [(each.name, each.default) for each in inspect.signature(method).parameters.values()]


@pytest.mark.parametrize("owner", sorted(set(_public()), key=str))
def test_what_is_awaited_has_a_plain_name_beside_it(owner: type) -> None:
    methods = _methods(owner)
    for name, method in methods.items():
        if not _is_awaited(method) or method.__module__.partition(".")[0] != "windlass":
            continue  # also what a class has of the package that it extends
        plain = methods.get(name.removeprefix("a")) if name.startswith("a") else None
        assert plain is not None, f"{owner.__name__}.{name} is awaited: name it a…, beside a plain one"
        assert not _is_awaited(plain)
        assert _parameters(plain) == _parameters(method), f"{owner.__name__}.{name} takes other arguments"
        # Both say what they do; the plain one is on the page, with the other in the same line.
        assert plain.__doc__
        assert method.__doc__


@pytest.mark.parametrize(("owner", "names"), ON_A_LOOP.items())
def test_the_exceptions_are_awaited_and_exist(owner: str, names: set[str]) -> None:
    (found,) = {each for each in _public() if each.__name__ == owner}
    assert all(_is_awaited(inspect.unwrap(getattr(found, name))) for name in names)


def test_a_plain_method_of_a_handle_that_asks_the_store_can_be_awaited_too() -> None:
    """Of the handles, by what they call: a plain one that goes to the store has its twin."""
    for owner in _public():
        methods = _methods(owner)
        for name, method in methods.items():
            if "_store_handle().call(" in inspect.getsource(method) and not _is_awaited(method):
                assert f"a{name}" in methods, f"{owner.__name__}.{name} blocks, and cannot be awaited"
