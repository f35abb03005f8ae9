"""The calls that `enqueue_many` takes, for type checkers: tuples that fit the parameters of the task, or
mappings.

A type checker cannot make a tuple of a signature. So a task is matched here by how many arguments its
`enqueue` takes by position, from none to four; of one that takes more, tuples are first checked when they are
enqueued. Tuples of one call have one length, unless they are annotated as `tuple[Any, ...]`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol, TypeAlias, TypeVar

A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
D = TypeVar("D")
A_contra = TypeVar("A_contra", contravariant=True)
B_contra = TypeVar("B_contra", contravariant=True)
C_contra = TypeVar("C_contra", contravariant=True)
D_contra = TypeVar("D_contra", contravariant=True)
Named: TypeAlias = Mapping[str, Any]
"""Arguments by name."""


class Takes0(Protocol):
    """A task that may be called without arguments."""

    def enqueue(self) -> Any: ...


class Takes1(Protocol[A_contra]):
    """A task that takes one argument."""

    def enqueue(self, a: A_contra, /) -> Any: ...


class Takes2(Protocol[A_contra, B_contra]):
    """A task that takes two."""

    def enqueue(self, a: A_contra, b: B_contra, /) -> Any: ...


class Takes3(Protocol[A_contra, B_contra, C_contra]):
    """A task that takes three."""

    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, /) -> Any: ...


class Takes4(Protocol[A_contra, B_contra, C_contra, D_contra]):
    """A task that takes four."""

    def enqueue(self, a: A_contra, b: B_contra, c: C_contra, d: D_contra, /) -> Any: ...


class TakesMore(Protocol):
    """A task that takes five."""

    def enqueue(self, a: Any, b: Any, c: Any, d: Any, e: Any, /) -> Any: ...
