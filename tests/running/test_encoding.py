"""What a step reads of its function's annotations [W1]."""

from __future__ import annotations

import functools
import gc
import typing
import weakref
from typing import Any

import pytest

from windlass.running.encoding import return_type


def test_w1_what_a_function_returns_is_looked_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """An annotation that is a text has to be compiled, and a workflow asks for each of its steps."""
    asked: list[Any] = []
    look = typing.get_type_hints

    def counted(function: Any) -> dict[str, Any]:
        asked.append(function)
        return look(function)

    async def plan(topic: str) -> list[int]:
        return [len(topic)]

    monkeypatch.setattr(typing, "get_type_hints", counted)
    assert [return_type(plan) for _ in range(3)] == [list[int]] * 3
    assert asked == [plan]


def test_w1_a_closure_is_not_kept_for_its_annotations() -> None:
    """A handler may define the functions of its steps anew in each run, around what it holds."""

    def made(held: bytes) -> weakref.ref[Any]:
        def size() -> int:
            return len(held)

        assert return_type(size) is int
        return weakref.ref(size)

    size = made(b"much")
    gc.collect()
    assert size() is None


class Planner:
    """Has a step as a method."""

    def plan(self) -> int:
        """As a step."""
        return 1

    def __call__(self) -> int:
        return 1


def test_w1_methods_wrappers_and_what_says_nothing() -> None:
    @functools.wraps(Planner.plan)
    def wrapped() -> str:
        return ""

    def silent():  # type: ignore[no-untyped-def]
        return 1

    def unknown() -> Nowhere:  # type: ignore[name-defined] # noqa: F821 - not there at run time
        return 1

    assert return_type(Planner().plan) is int
    assert return_type(wrapped) is int
    assert [return_type(each) for each in (silent, unknown, functools.partial(silent), len)] == [Any] * 4
